-- sessions: one bounded step through the open ones, or those of one name, oldest first.
--
-- ARGV[2]  the name; '' for all
-- ARGV[3]  where to go on ('0' to begin)
-- Answers  {where to go on ('': that was all), for each {info, opened, seen, how many leases, 1 if it is alive, id, its
--          memory or '', 1 if it is asked to stop}}
--@include current sessions

local AT_ONCE = 500
local found = call('ZRANGEBYSCORE', SESSIONS, '(' .. ARGV[3], '+inf', 'WITHSCORES', 'LIMIT', 0, AT_ONCE)
local answer = { #found == 2 * AT_ONCE and found[#found] or '' }
for i = 1, #found, 2 do
  local session = read_session(found[i])
  if session and not session.closed and (ARGV[2] == '' or ARGV[2] == session.name) then
    local about = call('HMGET', session.key, 'info', 'opened', 'seen_at', 'memory')
    local held = call('SCARD', session.held)
    local dead = held > 0 and steady >= session.seen + session.timeout
    answer[#answer + 1] = { about[1], about[2], about[3], held, dead and 0 or 1, found[i], about[4] or '', session.stop and 1 or 0 }
  end
end
return answer
