-- Putting jobs into queues, new ones or such as are somewhere already.

-- Put a job. `caller` is the worker that does it. Of priority, tags (a list), retries and depends (a list of jids) what is
-- nil is taken from the job as it is, if there is one.
function Put.put(now, caller, queue, jid, klass, data, delay, priority, tags, retries, depends)
  local key = 'ql:j:' .. jid
  local known = call('HMGET', key,
    'jid', 'state', 'queue', 'worker', 'priority', 'retries', 'tags', 'failure', 'history')
  local exists, kept, dropped, old_tags = known[1], 0, nil, nil
  if exists then
    kept, dropped = Qless.Move.sort_dependencies(key, depends or {})
    old_tags = Qless.Values.stored(known[7])
    tags = tags or old_tags
    priority = priority or stored_number(known[5])
    retries = retries or stored_number(known[6])
  end
  local waits_for = depends and depends[1] and Qless.Dependencies.unsatisfied(jid, depends)
  local blocked = kept > 0 or waits_for and #waits_for > 0

  -- Text is what Redis takes: every number would have to be printed first.
  priority = priority or 0
  retries = retries or 5
  retries = retries == 5 and '5' or retries
  local quoted = cjson.encode(queue)
  call('HMSET', key, 'jid', jid, 'klass', klass, 'data', data, 'priority', priority == 0 and '0' or priority,
    'tags', tags and tags[1] and cjson.encode(tags) or '{}', 'state', blocked and 'depends' or delay > 0 and 'scheduled' or 'waiting',
    'worker', '', 'expires', '0', 'queue', queue, 'retries', retries, 'remaining', retries,
    'time', time_text(now))
  call('PUBLISH', 'ql:log', '{"jid":' .. cjson.encode(jid) .. ',"event":"put","queue":' .. quoted .. '}')
  remember(key, string.format('[%d,"put",{"q":%s}]', math.floor(now), quoted), known[9])
  if exists then
    call('HDEL', key, 'grace', 'scheduled')
    Qless.Move.leave(caller, jid, known[2], known[3], known[4], known[8])
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
