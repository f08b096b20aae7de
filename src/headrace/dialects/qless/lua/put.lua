-- Putting jobs into queues, new ones or such as are somewhere already.
local Put = {put = nil}
Qless.Put = Put

-- Put a job. `caller` is the worker that does it. Of priority, tags (a list), retries and depends (a list of jids) what is
-- nil is taken from the job as it is, if there is one.
function Put.put(now, caller, queue, jid, klass, data, delay, priority, tags, retries, depends)
  local key = 'ql:j:' .. jid
  local exists, state, old_queue, worker, old_priority, old_retries, old_tags, failure, history = unpack(call('HMGET', key,
    'jid', 'state', 'queue', 'worker', 'priority', 'retries', 'tags', 'failure', 'history'))
  local kept, dropped = 0, nil
  if exists then
    kept, dropped = Qless.Move.sort_dependencies(key, depends or {})
    old_tags = Qless.Values.stored(old_tags)
    tags = tags or old_tags
  end
  local waits_for = depends and depends[1] and Qless.Dependencies.unsatisfied(jid, depends)
  local blocked = kept > 0 or waits_for and #waits_for > 0

  -- Text is what Redis takes: every number would have to be printed first.
  priority = priority or tonumber(old_priority) or 0
  retries = retries or tonumber(old_retries) or 5
  retries = retries == 5 and '5' or retries
  local quoted = cjson.encode(queue)
  call('HMSET', key, 'jid', jid, 'klass', klass, 'data', data, 'priority', priority == 0 and '0' or priority,
    'tags', tags and tags[1] and cjson.encode(tags) or '{}', 'state', blocked and 'depends' or delay > 0 and 'scheduled' or 'waiting',
    'worker', '', 'expires', '0', 'queue', queue, 'retries', retries, 'remaining', retries,
    'time', time_text(now))
  call('PUBLISH', 'ql:log', '{"jid":' .. cjson.encode(jid) .. ',"event":"put","queue":' .. quoted .. '}')
  remember(key, '[' .. math.floor(now) .. ',"put",{"q":' .. quoted .. '}]', history)
  if exists then
    call('HDEL', key, 'grace', 'scheduled')
    Qless.Move.leave(caller, jid, state, old_queue, worker, failure)
    Qless.Tags.forget(jid, old_tags)
    Qless.Dependencies.remove(jid, dropped)
  end
  if tags and tags[1] then
    Qless.Tags.index(now, jid, tags)
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
  if call('ZSCORE', 'ql:tracked', jid) then
    call('PUBLISH', 'ql:put', jid)
  end
  return jid
end

return Put
