-- Spare leases that have been started are no longer spare. They are named by arrival numbers: d each.
local function mark_started(session, started)
  if started == '' then
    return
  end
  local named = {}
  for at = 1, #started, 8 do
    named[unpack_from('>d', started, at)] = true
  end
  local ids = call('SMEMBERS', session.held)
  load_many(ids)
  for _, id in ipairs(ids) do
    local job = find_job(id)
    if job and named[job.arrival] and job.state == RUNNING and job.session == session.number then
      job.flags = without(job.flags, SPARE)
      change(job)
    end
  end
end
