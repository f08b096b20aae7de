-- Who holds a job: what a worker has to be before it may say anything about it.

-- The fields that an act on a job needs. An error unless the job exists.
function Holder.existing(command, jid, ...)
  local values = call('HMGET', 'ql:j:' .. jid, 'state', ...)
  if not values[1] then
    error(command .. '(): Job ' .. jid .. ' does not exist')
  end
  return values
end

-- Says why a worker may not act on a job, whose state and worker are these. A worker may as long as the job runs and
-- nobody else has got it; that its lock has ended is no obstacle.
function Holder.refuse(command, jid, state, worker)
  if not state then
    error(command .. '(): Job ' .. jid .. ' does not exist')
  elseif state ~= 'running' then
    error(command .. '(): Job ' .. jid .. ' not currently running: ' .. state)
  end
  error(command .. '(): Job ' .. jid .. ' given out to another worker: ' .. tostring(worker))
end

-- The fields of a job that a worker holds: state, worker, and those asked for. An error unless it does hold it.
function Holder.held(command, jid, worker, ...)
  local values = call('HMGET', 'ql:j:' .. jid, 'state', 'worker', ...)
  if values[1] ~= 'running' or values[2] ~= worker then
    Holder.refuse(command, jid, values[1], values[2])
  end
  return values
end
