-- How a job ended goes into its history before it is overwritten.
local function remember_end(job)
  local story = story_of(job)
  if job.started > 0 then
    remember(job, job.started, 'started', '', story.worker)
  end
  remember(job, job.finished, job.state == FAILED and 'failed' or 'cancelled', story.group, story.worker)
end
