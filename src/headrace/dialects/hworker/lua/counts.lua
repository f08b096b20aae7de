-- counts: how many entries there are at the keys of each queue, the phantom left out.
--
-- Answers     for each queue: jobs, progress, broken, failed
-- Fails       CORRUPT
--@include prelude

check_types()
local answer = {}
for queue = 1, #KEYS / 4 do
  local progress = key(queue, PROGRESS)
  answer[#answer + 1] = call('LLEN', key(queue, JOBS))
  answer[#answer + 1] = call('HLEN', progress) - call('HEXISTS', progress, PHANTOM)
  answer[#answer + 1] = call('HLEN', key(queue, BROKEN))
  answer[#answer + 1] = call('LLEN', key(queue, FAILED))
end
return answer
