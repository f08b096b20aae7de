-- Small changes to jobs where they are.

-- Change a job's priority. If it waits its place changes: the bare priority puts it before its equals.
function Change.set_priority(jid, priority)
  local queue = call('HGET', 'ql:j:' .. jid, 'queue')
  if not queue then
    error('Priority(): Job ' .. jid .. ' does not exist')
  end
  call('HSET', 'ql:j:' .. jid, 'priority', priority)
  call('ZADD', 'ql:q:' .. queue .. '-work', 'XX', priority, jid)
  return priority
end

-- Add an entry of the client's own to the history.
function Change.log(now, jid, message, extra)
  local values = Qless.Holder.existing('Log', jid, 'history')
  remember('ql:j:' .. jid, cjson.encode({math.floor(now), message, extra}), values[2])
end

function Change.tag(now, jid, tags)
  local values = Qless.Holder.existing('Tag', jid, 'tags')
  local all, added = Qless.Tags.with(Qless.Values.stored(values[2]), tags)
  call('HSET', 'ql:j:' .. jid, 'tags', cjson.encode(all))
  Qless.Tags.index(now, jid, added)
  return all
end

function Change.untag(jid, tags)
  local values = Qless.Holder.existing('Tag', jid, 'tags')
  local left, removed = Qless.Tags.without(Qless.Values.stored(values[2]), tags)
  call('HSET', 'ql:j:' .. jid, 'tags', cjson.encode(left))
  Qless.Tags.forget(jid, removed)
  return left
end

-- Take jobs from their workers by hand: they go to the very front of their queues.
function Change.time_out(now, jids)
  local all = {}
  for _, jid in ipairs(jids) do
    local values = Qless.Holder.existing('Timeout', jid, 'worker', 'queue', 'history')
    if values[1] ~= 'running' then
      error('Timeout(): Job ' .. jid .. ' not running: ' .. values[1])
    end
    all[jid] = values
  end
  for _, jid in ipairs(jids) do
    local values = all[jid]
    -- (Once, if it is named twice.)
    if values then
      all[jid] = nil
      local worker, queue, history = values[2] or '', values[3] or '', values[4]
      local key = 'ql:j:' .. jid
      remember(key, '[' .. math.floor(now) .. ',"timed-out"]', history)
      call('ZREM', 'ql:q:' .. queue .. '-locks', jid)
      call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)
      call('ZADD', 'ql:q:' .. queue .. '-work', '+inf', jid)
      call('HMSET', key, 'state', 'stalled', 'expires', 0)
      Qless.Events.tell(worker, {jid = jid, event = 'lock_lost', worker = worker})
    end
  end
end

-- Extend a worker's lock, and store new data if there are any. Answers with the time at which the lock will end.
function Change.heartbeat(now, jid, worker, data)
  local values = Qless.Holder.held('Heartbeat', jid, worker, 'queue', 'grace')
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
