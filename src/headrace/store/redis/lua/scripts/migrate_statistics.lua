-- migrate_statistics: what format 1 summed up when done jobs went, and counted when it was asked, is summed up of the jobs that are
-- kept. The position is the name of a list of ended jobs, a space, and how many of it have been looked at.
--
-- ARGV[2]  the step after this one
-- Answers  the step to call next
--@include migration plan

if at_step ~= 'migrate_statistics' then
  return at_step or ''
end
local AT_ONCE = 1000
local list, first = position:match('^(%a+) (%d+)$')
list, first = list or 'done', tonumber(first or 0)
local ids = call('ZRANGE', PREFIX .. list, first, first + AT_ONCE - 1)
load_many(ids)
for _, id in ipairs(ids) do
  local good, job = pcall(find_job, id) -- one that is damaged is set aside when it is met after the migration
  if good and job and job.state == DONE then
    fold(job.queue, job.due, job.started, job.finished)
  elseif good and job and job.state == FAILED then
    stats.count(job.queue, job.finished, 'failed')
  end
end
local changes, behind = changed_stats(), nil
if #ids == AT_ONCE then
  behind = list .. ' ' .. string.format('%.0f', first + AT_ONCE)
elseif list == 'done' then
  behind = 'failed 0'
end
local answer = go_on(behind)
write_stats(changes)
return answer
