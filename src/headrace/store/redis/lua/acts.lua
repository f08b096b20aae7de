-- What more than one script does to jobs.

-- A running job is to stop: its session is told.
local function ask_to_stop(job)
  if band(job.flags, CANCELLING) == 0 then
    happened(job, 'cancelling')
  end
  job.flags = with(job.flags, CANCELLING)
  change(job)
  local session = session_of(job.session)
  if session then
    plan.tell[session] = true
  end
end
