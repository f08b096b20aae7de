-- wait: a waiter is about to wait for work. Registers its session as hungry, and says whether there is anything to wait for.
--
-- ARGV[2]     session id
-- ARGV[3...]  queues, and patterns for queues
-- Answers     {1 if there may be work already, milliseconds until the next scheduled job is due or the next schedule ticks,
--             or -1}
--@include queues

local QUEUES_AT_MOST = 100
local names = arguments(3)
if call('EXISTS', PREFIX .. 'releasing') > 0 then
  return { 1, 0 }
end
local walk = queues.meant_by(names, QUEUES_AT_MOST)
for _, queue in ipairs(walk.queues) do
  if call('EXISTS', PREFIX .. 'row:' .. queue, PREFIX .. 'line:' .. queue) > 0 and queues.room(queue) > 0 then
    return { 1, 0 }
  end
end
if walk.stopped or walk.cut then
  return { 1, 0 } -- perhaps: an exchange goes on looking where this has stopped
end
local ahead = -1
for _, key in ipairs({ DUE, TICKS }) do
  local head = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  local left = head and math.max(0, tonumber(head) - now)
  ahead = left and (ahead < 0 or left < ahead) and left or ahead
end
check_hungry(names)
be_hungry(ARGV[2], names)
return { 0, ahead }
