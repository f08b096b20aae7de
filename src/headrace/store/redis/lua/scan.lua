-- scan: one bounded step of looking for jobs where they are in no order of use.
--
-- ARGV[2]  where to go on ('0' to begin)
-- ARGV[3]  only jobs that arrived before this number
-- ARGV[4..7]  which ones: see fits.lua
-- ARGV[8]  where to look: '' everywhere, 'held:<session>', or 'failed' and the like
-- Answers  {where to go on ('0': that was all), arrival, id, task, ...}
--@include prelude format same_format job plan fits

local ids, cursor = {}, '0'
if ARGV[8] == '' then
  local step = call('HSCAN', JOB, ARGV[2], 'COUNT', 1000)
  cursor = step[1]
  for i = 1, #step[2], 2 do
    ids[#ids + 1] = step[2][i]
    raw[step[2][i]] = step[2][i + 1]
  end
elseif ARGV[8]:find('^held:') then
  ids = call('SMEMBERS', PREFIX .. ARGV[8])
else
  local step = call('ZSCAN', PREFIX .. ARGV[8], ARGV[2], 'COUNT', 1000)
  cursor = step[1]
  for i = 1, #step[2], 2 do
    ids[#ids + 1] = step[2][i]
  end
end
load_many(ids)
local before, answer = tonumber(ARGV[3]), { cursor }
for _, id in ipairs(ids) do
  local job = find_job(id)
  local task = job and job.arrival < before and fits(job)
  if task then
    answer[#answer + 1] = string.format('%.0f', job.arrival)
    answer[#answer + 1] = id
    answer[#answer + 1] = task
  end
end
return answer
