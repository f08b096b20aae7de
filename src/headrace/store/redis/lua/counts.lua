-- counts: how many jobs are where.
--
-- Answers  {digit of the state and queue, number, ...}
--@include prelude

local answer = {}
local meta = call('HGETALL', META)
for i = 1, #meta, 2 do
  if meta[i]:find('^%d') then
    answer[#answer + 1] = meta[i]
    answer[#answer + 1] = meta[i + 1]
  end
end
return answer
