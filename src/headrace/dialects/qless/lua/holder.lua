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
  local values = call('HMGET', 'ql:j:' .. jid, 'state', 'worker', ...)
  if values[1] ~= 'running' then
    if not values[1] then
      error(command .. '(): Job ' .. jid .. ' does not exist')
    end
    error(command .. '(): Job ' .. jid .. ' not currently running: ' .. values[1])
  end
  if values[2] ~= worker then
    error(command .. '(): Job ' .. jid .. ' given out to another worker: ' .. tostring(values[2]))
  end
  return values
end

return Holder
