-- sweep: bounded upkeep. Ends expired sessions, fails jobs that have not started in time, brings back those whose
-- task is no longer blocked, purges what retention has given up, forgets old watchers and empty lanes.
--
-- ARGV[2..4]  milliseconds to keep done jobs, failed and cancelled ones, and how many done ones, in place of what the settings
--             say; each may be empty or left out
-- ARGV[5]     do nothing if such a sweep was done less than so many milliseconds ago; may be empty or left out
-- Answers     {sessions closed, jobs returned, jobs purged, 1 if there is more to do, in how many milliseconds the next
--             schedule ticks or -1, how many of those purged were failed ones that made room before their time, in how many
--             milliseconds to come again (0 if ARGV[5] does not say how often there is to be a sweep), and a batch of which parts have not
--             come in, if there is one: call `admit`}
--@include prelude

local known = call('HMGET', META, 'format', 'swept')
check_format(known[1])
-- One sweep is enough for all workers. Where many ask, each comes less often: so many are enough to have one in time,
-- and when most of them die at once another comes soon.
local ASKERS, SELDOM = 4, 20
local every = tonumber(ARGV[5] or '') or 0
local total = call('ZCARD', SESSIONS)
local again = math.floor(every * math.max(1, math.min(total / ASKERS, SELDOM)))
local last = every > 0 and tonumber(known[2] or '')
local set_back = last and last > steady -- the server's clock
if last and not set_back and steady < last + every then
  local tick = call('ZRANGE', TICKS, 0, 0, 'WITHSCORES')[2]
  return { 0, 0, 0, 0, tick and math.max(0, tonumber(tick) - now) or -1, 0, again }
end
--@include sweep

sweep.expired()
sweep.lifted()
sweep.sessions(total, set_back)
sweep.ended(tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]))
sweep.relations_and_lanes()
sweep.results()
sweep.statistics()
sweep.groups()
sweep.blocks()
sweep.waiters()

local tick = next_tick()
local arriving = call('ZRANGE', PREFIX .. 'arriving', 0, 0)[1]
local buried = 0
if sweep.has_found_any() then
  commit(even_when_full)
  buried = sweep.write()
end
if swept.looks[1] or every > 0 then
  even_when_full()
  if set_back then
    call('DEL', EXPIRIES)
  end
  bulk('ZADD', EXPIRIES, swept.looks)
end
if every > 0 and swept.more == 0 and not arriving then
  call('HSET', META, 'swept', string.format('%.0f', steady))
elseif every > 0 then
  call('HDEL', META, 'swept') -- others may help
end
return {
  buried, swept.returned, swept.purged, swept.more, tick and math.max(0, tick - now) or -1, swept.purged_early, again, arriving }
