-- scan: one bounded step of looking for jobs.
--
-- ARGV[2]  where to go on ('0' to begin)
-- ARGV[3]  only jobs that arrived before this number
-- ARGV[4]  states, as digits ('': any)
-- ARGV[5..7]  queue, task, group: '' or '=' and the name
-- Answers  {where to go on ('0': that was all), arrival, id, ...}
--@include prelude job

local step = call('HSCAN', JOB, ARGV[2], 'COUNT', 1000)
local before, states = tonumber(ARGV[3]), ARGV[4]
local answer = { step[1] }
for i = 1, #step[2], 2 do
  local job = parse(step[2][i], step[2][i + 1])
  local fits = job.arrival < before and (states == '' or states:find(job.state, 1, true))
    and (ARGV[5] == '' or ARGV[5] == '=' .. job.queue)
  if fits and ARGV[6] ~= '' then
    local _, task = unpack_from('>Hc0Hc0', job.put)
    fits = ARGV[6] == '=' .. task
  end
  if fits and ARGV[7] ~= '' then
    fits = band(job.flags, HAS_GROUP) ~= 0 and ARGV[7] == '=' .. story_of(job).group
  end
  if fits then
    answer[#answer + 1] = string.format('%.0f', job.arrival)
    answer[#answer + 1] = job.id
  end
end
return answer
