-- How a job ended goes into its history before it is overwritten, unless it is there already.
local function remember_end(job)
  local ended = job.state == FAILED and 'failed' or 'cancelled'
  if last_line(job) == ended then
    return
  end
  local story = story_of(job)
  if job.started > 0 then
    remember(job, job.started, 'started', '', story.worker)
  end
  remember(job, job.finished, ended, job.state == FAILED and story.group or '', story.worker)
end
