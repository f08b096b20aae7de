-- schedules_get: look at schedules, by their names, by name, or those that are due.
--
-- ARGV[2]  'named', 'page' or 'due'
-- ARGV[3]  page: after which name; ARGV[4] page and due: how many at most
-- ARGV[3...]  named: the names
-- Answers  {now, when the next one ticks or '', 1 if there are more, name, record, ...}
--@include current admission

local names, more = {}, 0
if ARGV[2] == 'named' then
  names = arguments(3)
else
  local limit = tonumber(ARGV[4])
  if ARGV[2] == 'page' then
    names = call('ZRANGEBYLEX', schedules.names, '(' .. ARGV[3], '+', 'LIMIT', 0, limit + 1)
  else
    names = call('ZRANGEBYSCORE', TICKS, '-inf', now, 'LIMIT', 0, limit + 1)
  end
  if #names > limit then
    names[limit + 1], more = nil, 1
  end
end
local records = read_many('HMGET', schedules.key, names)
local tick = next_tick()
local answer = { string.format('%.0f', now), tick and string.format('%.0f', tick) or '', more }
for i, name in ipairs(names) do
  if records[i] then
    answer[#answer + 1] = name
    answer[#answer + 1] = records[i]
  end
end
return answer
