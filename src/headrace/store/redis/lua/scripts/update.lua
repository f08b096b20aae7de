-- update: give a job new data, in whatever state it is, if it has the data expected. A worker that runs it is told when it renews.
--
-- ARGV[2]  job id
-- ARGV[3]  the data that it has; '' if it has none
-- ARGV[4]  its new data
-- Answers  1, 0 if it has other data, or -1 if there is no such job
-- Fails    REFUSED
--@include current commit

if not ARGV[4] or ARGV[4] == '' then
  checks.refuse('The new data is empty.')
end
local job = find_job(ARGV[2])
if not job then
  return -1
end
local story = story_of(job)
if value_of(job, story, 'data') ~= ARGV[3] then
  return 0
end
keep_value(job, story, 'data', ARGV[4])
if job.state == RUNNING then
  story.large = with(story.large, UPDATED)
end
tell(job, story)
change(job)
commit(unless_full)
return 1
