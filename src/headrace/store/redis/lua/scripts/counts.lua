-- counts: how many jobs are where. All that at one moment, or of very many queues one bounded step of it.
--
-- ARGV[2]  where to go on ('0' to begin)
-- Answers  {where to go on ('0': that was all), digit of the state and queue, number, ...}; a field may come twice
--@include current

local AT_ONCE, STEP = 10000, 1000
local cursor, meta = '0', nil
if ARGV[2] == '0' and call('HLEN', META) <= AT_ONCE then
  meta = call('HGETALL', META)
else
  cursor, meta = unpack(call('HSCAN', META, ARGV[2], 'COUNT', STEP))
end
local answer = { cursor }
for i = 1, #meta, 2 do
  if meta[i]:find('^%d') then
    answer[#answer + 1] = meta[i]
    answer[#answer + 1] = meta[i + 1]
  end
end
return answer
