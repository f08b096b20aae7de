-- Jobs that wait for other jobs. `ql:j:<jid>-dependencies` has those that a job still waits for, `-dependents` of each
-- of these has the job.

-- Those of the jids that a job would have to wait for: jobs that exist and are not complete. Nobody waits for himself.
function Dependencies.unsatisfied(jid, jids)
  local found = {}
  for _, other in ipairs(jids) do
    other = tostring(other)
    local state = other ~= jid and call('HGET', 'ql:j:' .. other, 'state')
    if state and state ~= 'complete' then
      found[#found + 1] = other
    end
  end
  return found
end

local function change(command, jid, jids)
  for _, other in ipairs(jids) do
    call(command, 'ql:j:' .. jid .. '-dependencies', other)
    call(command, 'ql:j:' .. other .. '-dependents', jid)
  end
end

function Dependencies.add(jid, jids)
  change('SADD', jid, jids)
end

function Dependencies.remove(jid, jids)
  change('SREM', jid, jids)
end

-- A job has nothing left to wait for: into the line, or to the time that was kept aside for it.
local function unlock(now, jid, queue, priority, scheduled)
  local key = 'ql:j:' .. jid
  call('ZREM', 'ql:q:' .. queue .. '-depends', jid)
  scheduled = stored_number(scheduled)
  if scheduled then
    call('ZADD', 'ql:q:' .. queue .. '-scheduled', scheduled, jid)
    call('HSET', key, 'state', 'scheduled')
    call('HDEL', key, 'scheduled')
  else
    call('ZADD', 'ql:q:' .. queue .. '-work', (stored_number(priority, 0)) - now / 10000000000, jid)
    call('HSET', key, 'state', 'waiting')
  end
end

-- A job is complete: of those that depend on it, those that waited for it alone may run.
function Dependencies.release(now, jid, dependents)
  for _, other in ipairs(dependents) do
    local waits_for = 'ql:j:' .. other .. '-dependencies'
    if call('SREM', waits_for, jid) == 1 and call('SCARD', waits_for) == 0 then
      local queue, priority, scheduled = unpack(call('HMGET', 'ql:j:' .. other, 'queue', 'priority', 'scheduled'))
      if queue and queue ~= '' then
        unlock(now, other, queue, priority, scheduled)
      end
    end
  end
  call('DEL', 'ql:j:' .. jid .. '-dependents')
end

local function in_depends_state(jid)
  local values = call('HMGET', 'ql:j:' .. jid, 'state', 'queue', 'priority', 'scheduled')
  if values[1] ~= 'depends' then
    error('Depends(): Job ' .. jid .. ' not in the depends state: ' .. tostring(values[1]))
  end
  return values
end

-- Let a job that waits for others wait for more of them.
function Dependencies.on(jid, jids)
  in_depends_state(jid)
  Dependencies.add(jid, Dependencies.unsatisfied(jid, jids))
end

-- Let it no longer wait for some (`jids`), or for any (nil).
function Dependencies.off(now, jid, jids)
  local _, queue, priority, scheduled = unpack(in_depends_state(jid))
  local key = 'ql:j:' .. jid .. '-dependencies'
  Dependencies.remove(jid, jids or call('SMEMBERS', key))
  if call('SCARD', key) == 0 then
    unlock(now, jid, queue or '', priority, scheduled)
  end
end
