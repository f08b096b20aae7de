-- Putting jobs into queues, new ones or such as are somewhere already.
local Put = {}
Qless.Put = Put

-- A job leaves where it was: its queue, its worker, the completed, the failed.
local function leave(now, caller, jid, state, queue, worker, failure)
  if queue and queue ~= '' then
    for _, place in ipairs({'-work', '-locks', '-depends', '-scheduled'}) do
      call('ZREM', 'ql:q:' .. queue .. place, jid)
    end
  end
  if worker and worker ~= '' then
    call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)
    if worker ~= caller then
      Qless.Events.tell(worker, {jid = jid, event = 'lock_lost', worker = worker})
    end
  end
  if state == 'complete' then
    call('ZREM', 'ql:completed', jid)
  elseif state == 'failed' then
    Qless.Failures.forget(jid, queue, Qless.Values.stored(failure))
  end
end

-- What a job waits for already, sorted into what stays and what an explicit list of dependencies leaves out.
local function sort_dependencies(key, depends)
  local present, kept, dropped = call('SMEMBERS', key .. '-dependencies'), {}, {}
  local wanted = {}
  for _, other in ipairs(depends) do
    wanted[tostring(other)] = true
  end
  for _, other in ipairs(present) do
    local list = (#depends == 0 or wanted[other]) and kept or dropped
    list[#list + 1] = other
  end
  return kept, dropped
end

-- Put a job. `new` has worker (the caller), queue, jid, klass, data and delay, and may have priority, tags, retries and
-- depends (lists). What is not given is taken from the job as it is, if there is one.
function Put.put(now, new)
  local jid, queue, delay = new.jid, new.queue, new.delay
  local key = 'ql:j:' .. jid
  local exists, state, old_queue, worker, priority, retries, tags, failure, history = unpack(call('HMGET', key,
    'jid', 'state', 'queue', 'worker', 'priority', 'retries', 'tags', 'failure', 'history'))
  local depends, kept, dropped = new.depends, 0, nil
  if exists then
    kept, dropped = sort_dependencies(key, depends or {})
    kept = #kept
  end
  local waits_for = depends and Qless.Dependencies.unsatisfied(jid, depends)
  local blocked = kept > 0 or waits_for and #waits_for > 0

  priority = new.priority or tonumber(priority) or 0
  retries = new.retries or tonumber(retries) or 5
  local old_tags = tags and Qless.Values.stored(tags)
  local new_tags = new.tags or old_tags
  local new_state = blocked and 'depends' or delay > 0 and 'scheduled' or 'waiting'
  call('HMSET', key, 'jid', jid, 'klass', new.klass, 'data', new.data, 'priority', priority,
    'tags', new_tags and #new_tags > 0 and encode(new_tags) or '{}', 'state', new_state, 'worker', '', 'expires', 0,
    'queue', queue, 'retries', retries, 'remaining', retries, 'time', string.format('%.20f', now))
  call('PUBLISH', 'ql:log', encode({jid = jid, event = 'put', queue = queue}))
  Qless.History.append(now, key, 'put', {q = queue}, history)
  if exists then
    call('HDEL', key, 'grace', 'scheduled')
    leave(now, new.worker, jid, state, old_queue, worker, failure)
    if old_tags and #old_tags > 0 then
      Qless.Tags.forget(jid, old_tags)
    end
    if #dropped > 0 then
      Qless.Dependencies.remove(jid, dropped)
    end
  end
  if new_tags and #new_tags > 0 then
    Qless.Tags.index(now, jid, new_tags)
  end
  if blocked then
    Qless.Dependencies.add(jid, waits_for or {})
    call('ZADD', 'ql:q:' .. queue .. '-depends', now, jid)
    if delay > 0 then
      call('HSET', key, 'scheduled', now + delay)
    end
  elseif delay > 0 then
    call('ZADD', 'ql:q:' .. queue .. '-scheduled', now + delay, jid)
  else
    call('ZADD', 'ql:q:' .. queue .. '-work', priority - now / 10000000000, jid)
  end
  call('ZADD', 'ql:queues', 'NX', now, queue)
  tell_trackers(jid, 'ql:put')
  return jid
end

-- The same for a job that must be there already.
function Put.requeue(now, new)
  Qless.Job.existing('Requeue', new.jid)
  return Put.put(now, new)
end

-- Make an end of jobs that are not complete. Refused while a job that stays depends on one of them.
function Put.cancel(jids)
  local given = {}
  for _, jid in ipairs(jids) do
    given[jid] = true
  end
  for _, jid in ipairs(jids) do
    for _, dependent in ipairs(call('SMEMBERS', 'ql:j:' .. jid .. '-dependents')) do
      if not given[dependent] then
        error('Cancel(): ' .. jid .. ' is a dependency of ' .. dependent .. ' but is not mentioned to be canceled')
      end
    end
  end
  for _, jid in ipairs(jids) do
    if given[jid] then
      given[jid] = nil
      Put.remove(jid)
    end
  end
  return jids
end

-- One job leaves everything it is in, and is gone.
function Put.remove(jid)
  local key = 'ql:j:' .. jid
  local state, queue, worker, failure, tags = unpack(
    call('HMGET', key, 'state', 'queue', 'worker', 'failure', 'tags'))
  if state == 'complete' then
    return
  end
  call('DEL', key, key .. '-history')
  local message = encode({jid = jid, worker = worker, event = 'canceled', queue = queue})
  call('PUBLISH', 'ql:log', message)
  if worker and worker ~= '' then
    call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)
    call('PUBLISH', 'ql:w:' .. worker, message)
  end
  if queue and queue ~= '' then
    for _, place in ipairs({'-work', '-locks', '-scheduled', '-depends'}) do
      call('ZREM', 'ql:q:' .. queue .. place, jid)
    end
  end
  Qless.Dependencies.remove(jid, call('SMEMBERS', key .. '-dependencies'))
  if state == 'failed' then
    Qless.Failures.forget(jid, queue, Qless.Values.stored(failure))
  end
  Qless.Tags.forget(jid, Qless.Values.stored(tags))
  tell_trackers(jid, 'ql:canceled')
end

return Put
