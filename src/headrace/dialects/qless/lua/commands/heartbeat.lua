-- heartbeat jid worker [data]
-- Extends the lock of the worker that holds the job, and stores data if given.
-- Reply: when the lock will end, in whole seconds. An error if the job is not the worker's.
Qless.heartbeat = function(now, arguments)
  local jid = required('Heartbeat', 'jid', arguments[1])
  local worker = required('Heartbeat', 'worker', arguments[2])
  if arguments[3] then
    json('Heartbeat', 'data', arguments[3])
  end
  return Qless.Change.heartbeat(now, jid, worker, arguments[3])
end
return Qless.heartbeat
