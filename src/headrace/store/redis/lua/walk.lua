-- walk: one bounded step along an index in order of arrival, newest first.
--
-- ARGV[2]  the index: 'tracked', 'tag:<tag>' or 'group:<group>'
-- ARGV[3]  only jobs that arrived before this number
-- ARGV[4..7]  which ones: see fits.lua
-- Answers  {the number to go on before ('': that was all), arrival, id, task, ...}
--@include prelude format same_format job plan fits

local AT_ONCE = 500
local found = call('ZREVRANGEBYSCORE', PREFIX .. ARGV[2], '(' .. ARGV[3], '-inf', 'WITHSCORES', 'LIMIT', 0, AT_ONCE)
local ids = {}
for i = 1, #found, 2 do
  ids[#ids + 1] = found[i]
end
load_many(ids)
local answer = { #ids == AT_ONCE and found[#found] or '' }
for i, id in ipairs(ids) do
  local job = find_job(id)
  local task = job and fits(job)
  if task then
    answer[#answer + 1] = found[2 * i]
    answer[#answer + 1] = id
    answer[#answer + 1] = task
  end
end
return answer
