-- sweep: bounded upkeep. Ends expired sessions, purges what retention has given up, forgets old watchers and empty lanes.
--
-- ARGV[2..4]  milliseconds to keep done jobs, failed and cancelled ones, and how many of each state
-- Answers     {sessions closed, jobs returned, jobs purged, 1 if there is more to do}
--@include prelude job plan more sorted lanes outcome relations session wake patterns queues commit closing purge

local SESSIONS_AT_ONCE, RETURNED_AT_ONCE, PURGED_AT_ONCE, FORGOTTEN_AT_ONCE = 1000, 1000, 500, 500
local SILENT = 24 * 3600000 -- a session without leases that was silent for so long is not coming back
local closed, returned, more = {}, 0, 0

local total = call('ZCARD', SESSIONS)
local first = total > SESSIONS_AT_ONCE and now % total or 0
for _, id in ipairs(call('ZRANGE', SESSIONS, first, first + SESSIONS_AT_ONCE - 1)) do
  local session = read_session(id)
  if returned >= RETURNED_AT_ONCE then
    more = 1
    break
  end
  if not session or session.closed then
    closed[#closed + 1] = { id = id, key = session_key(id), held = PREFIX .. 'held:' .. id, hungry = '', lost = true }
  elseif expired(session) or steady >= session.seen + math.max(session.timeout, SILENT) then
    returned = returned + #give_back(session, nil)
    closed[#closed + 1] = session
  end
end

local purged = 0
local keeps = { [DONE] = tonumber(ARGV[2]), [FAILED] = tonumber(ARGV[3]), [CANCELLED] = tonumber(ARGV[3]) }
for state, key in pairs(ENDED) do
  local surplus = call('ZCARD', key) - tonumber(ARGV[4])
  local too_old = call('ZCOUNT', key, '-inf', '(' .. string.format('%.0f', now - keeps[state]))
  local given_up = math.min(math.max(surplus, too_old), PURGED_AT_ONCE)
  if given_up > 0 then
    purged = purged + purge(state, given_up)
    more = given_up == PURGED_AT_ONCE and 1 or more
  end
end

local worked = work_off()
queues.tell_of_room()
local faded = call('ZRANGEBYSCORE', PREFIX .. 'fading', '-inf', now, 'LIMIT', 0, FORGOTTEN_AT_ONCE)
for _, name in ipairs(faded) do
  lanes.forget(lanes.at(name))
end
if worked and relations.unfinished or #faded == FORGOTTEN_AT_ONCE then
  more = 1
end

local forgotten = check_type(WATCHED, 'zset') and call('ZCOUNT', WATCHED, '-inf', now) > 0
if closed[1] or next(plan.ended_heads) or worked or faded[1] or forgotten then
  commit(even_when_full)
  local buried = 0
  for _, session in ipairs(closed) do
    if session.lost then
      call('ZREM', SESSIONS, session.id)
    else
      bury(session)
      buried = buried + 1
    end
  end
  if forgotten then
    call('ZREMRANGEBYSCORE', WATCHED, '-inf', now)
  end
  return { buried, returned, purged, more }
end
return { 0, 0, 0, 0 }
