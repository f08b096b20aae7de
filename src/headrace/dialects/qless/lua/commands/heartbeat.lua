-- heartbeat jid worker [data]
-- Extends the lock of the worker that holds the job, and stores data if given.
-- Reply: when the lock will end, in whole seconds. An error if the job is not the worker's.
function Qless.heartbeat(now, jid, worker, data)
  required('Heartbeat', 'jid', jid)
  required('Heartbeat', 'worker', worker)
  if data then
    json('Heartbeat', 'data', data)
  end
  return Qless.Change.heartbeat(now, jid, worker, data)
end
