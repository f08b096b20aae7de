-- sessions: all open ones, or those of one name.
--
-- ARGV[2]  the name; may be left out
-- Answers  for each {info, opened, seen, how many leases, 1 if it is alive, id}
--@include prelude job plan more session

local answer = {}
for _, id in ipairs(call('ZRANGE', SESSIONS, 0, 9999)) do
  local session = read_session(id)
  if session and not session.closed and (not ARGV[2] or ARGV[2] == session.name) then
    local about = call('HMGET', session.key, 'info', 'opened', 'seen_at')
    local held = call('SCARD', session.held)
    local dead = held > 0 and steady >= session.seen + session.timeout
    answer[#answer + 1] = { about[1], about[2], about[3], held, dead and 0 or 1, id }
  end
end
return answer
