-- durations: one bounded step through jobs that ended on a day, oldest first, and what was summed up of that day.
--
-- ARGV[2]  queue
-- ARGV[3]  day
-- ARGV[4]  'done' or 'failed'
-- ARGV[5]  the job that the step before ended with ('': begin)
-- Answers  {1} if that job is gone: who knows what went with it. Else {0, the job to go on after ('': that was all), how many
--          jobs, {bucket, number, ...} of waits, their sum and that of their squares, the same of runs,
--          {field, value, ...} of what was summed up, first day that is kept, first day with histograms}
--@include prelude format same_format job plan settings stats

local AT_ONCE = 1000
local day, key = tonumber(ARGV[3]), PREFIX .. ARGV[4]
local first
if ARGV[5] == '' then
  first = call('ZCOUNT', key, '-inf', '(' .. string.format('%.0f', day * DAY))
else
  local rank = call('ZRANK', key, ARGV[5])
  if not rank then
    return { 1 }
  end
  first = rank + 1
end
local found = call('ZRANGE', key, first, first + AT_ONCE - 1, 'WITHSCORES')
local ids = {}
for i = 1, #found, 2 do
  if tonumber(found[i + 1]) < (day + 1) * DAY then
    ids[#ids + 1] = found[i]
  end
end
load_many(ids)
local number = 0
for _, id in ipairs(ids) do
  local job = find_job(id)
  if job and job.queue == ARGV[2] then
    number = number + 1
    if job.state == DONE then
      fold(job.queue, job.due, job.started, job.finished)
    end
  end
end

local function summed(lengths)
  local _, total, squares, buckets = tally(lengths)
  local list = {}
  for bucket, many in pairs(buckets) do
    list[#list + 1] = bucket
    list[#list + 1] = many
  end
  return list, string.format('%.17g', total), string.format('%.17g', squares)
end

local sums = sums_of(ARGV[2], day)
local waits_in, waits_total, waits_squares = summed(sums.w)
local runs_in, runs_total, runs_squares = summed(sums.r)
return {
  0, #ids == AT_ONCE and ids[#ids] or '', number, waits_in, waits_total, waits_squares, runs_in, runs_total, runs_squares,
  numbers_in(PREFIX .. 'stat:' .. ARGV[3] .. ':' .. ARGV[2]), first_day('stats-history'), first_day('histogram-history'),
}
