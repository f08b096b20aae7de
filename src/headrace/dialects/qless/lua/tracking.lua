-- Tracked jobs: what happens to them is told on channels of their own, as bare jids.

-- Tracked jobs, the longest tracked first, and tracked jids that have no record any more.
function Tracking.list()
  local jobs, expired = {}, {}
  for _, jid in ipairs(call('ZRANGE', 'ql:tracked', 0, -1)) do
    local values = Qless.Job.read(jid)
    if values[1] then
      jobs[#jobs + 1] = Qless.Job.object(values, true)
    else
      expired[#expired + 1] = jid
    end
  end
  return {jobs = jobs, expired = expired}
end

-- The number of jobs newly tracked: 1 or 0.
function Tracking.track(now, jid)
  Qless.Holder.existing('Track', jid)
  local added = call('ZADD', 'ql:tracked', now, jid)
  call('PUBLISH', 'ql:track', jid)
  return added
end

-- The number of jobs no longer tracked: 1 or 0.
function Tracking.untrack(jid)
  Qless.Holder.existing('Track', jid)
  local removed = call('ZREM', 'ql:tracked', jid)
  call('PUBLISH', 'ql:untrack', jid)
  return removed
end
