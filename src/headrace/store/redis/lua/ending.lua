-- How a job ended goes into its history before it is overwritten, unless it is there already.
local function remember_end(job)
  local story = story_of(job)
  local ended = job.state == FAILED and 'failed' or 'cancelled'
  local last = band(job.flags, HISTORY) ~= 0 and call('LINDEX', PREFIX .. 'history:' .. job.id, -1)
  local known = pack('>dHc0', job.finished, #ended, ended)
  if last and last:sub(1, #known) == known then
    return
  end
  if job.started > 0 then
    remember(job, job.started, 'started', '', story.worker)
  end
  remember(job, job.finished, ended, story.group, story.worker)
end
