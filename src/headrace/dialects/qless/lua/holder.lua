-- Who holds a job: what a worker has to be before it may say anything about it.
local Holder = {}
Qless.Holder = Holder

-- The fields that an act on a job needs. An error unless the job exists.
function Holder.existing(command, jid, ...)
  local values = call('HMGET', 'ql:j:' .. jid, 'state', ...)
  if not values[1] then
    error(command .. '(): Job ' .. jid .. ' does not exist')
  end
  return values
end

-- The fields of a job that a worker holds: state, worker, and those asked for. An error unless it does hold it. That its
-- lock has ended is no obstacle as long as nobody else has got the job.
function Holder.held(command, jid, worker, ...)
  local values = Holder.existing(command, jid, 'worker', ...)
  if values[1] ~= 'running' then
    error(command .. '(): Job ' .. jid .. ' not currently running: ' .. values[1])
  end
  if values[2] ~= worker then
    error(command .. '(): Job ' .. jid .. ' given out to another worker: ' .. tostring(values[2]))
  end
  return values
end

-- Extend a worker's lock, and store new data if there are any. Answers with the time at which the lock will end.
function Holder.heartbeat(now, jid, worker, data)
  local values = Holder.held('Heartbeat', jid, worker, 'queue', 'grace')
  local queue, grace = values[3] or '', values[4]
  local key = 'ql:j:' .. jid
  local expires = now + Qless.Config.heartbeat(queue)
  if data then
    call('HMSET', key, 'expires', expires, 'worker', worker, 'data', data)
  else
    call('HMSET', key, 'expires', expires, 'worker', worker)
  end
  if grace then
    call('HDEL', key, 'grace')
  end
  call('ZADD', 'ql:w:' .. worker .. ':jobs', expires, jid)
  call('ZADD', 'ql:q:' .. queue .. '-locks', expires, jid)
  call('ZADD', 'ql:workers', now, worker)
  return expires
end

return Holder
