-- Failed jobs: `ql:failures` names the groups, `ql:f:<g>` lists the jids of one, newest first.

-- A job fails. `counted_on` is the queue whose statistics say so. (History and messages are the caller's.)
function Failures.record(now, jid, queue, counted_on, failure, more)
  local key = 'ql:j:' .. jid
  call('HMSET', key, 'state', 'failed', 'worker', '', 'expires', '', 'failure', cjson.encode(failure), unpack(more or {}))
  call('HDEL', key, 'grace')
  call('ZREM', 'ql:q:' .. queue .. '-locks', jid)
  call('ZREM', 'ql:q:' .. queue .. '-work', jid)
  call('ZREM', 'ql:q:' .. queue .. '-scheduled', jid)
  call('SADD', 'ql:failures', failure.group)
  call('LPUSH', 'ql:f:' .. failure.group, jid)
  Qless.Statistics.count(now, counted_on, 'failures', 1)
  Qless.Statistics.count(now, counted_on, 'failed', 1)
end

local function drop_empty(group)
  if call('EXISTS', 'ql:f:' .. group) == 0 then
    call('SREM', 'ql:failures', group)
  end
end

-- A failed job goes elsewhere. `failure` and `queue` are as they were when it failed.
function Failures.forget(jid, queue, failure)
  if failure.group then
    call('LREM', 'ql:f:' .. tostring(failure.group), 0, jid)
    drop_empty(tostring(failure.group))
  end
  Qless.Statistics.no_longer_failed(queue, failure)
end

-- The worker says that its job has failed.
function Failures.fail(now, jid, worker, group, message, data)
  local values = Qless.Holder.held('Fail', jid, worker, 'queue', 'history')
  local queue, history = values[3] or '', values[4]
  local failure = {group = group, message = message, when = math.floor(now), worker = worker}
  Failures.record(now, jid, queue, queue, failure, data and {'data', data})
  remember('ql:j:' .. jid, cjson.encode({math.floor(now), 'failed', {worker = worker, group = group}}), history)
  call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)
  call('PUBLISH', 'ql:log', cjson.encode({jid = jid, event = 'failed', worker = worker, group = group, message = message}))
  Qless.Events.tell_trackers(jid, 'ql:failed')
  return jid
end

-- The worker gives its job back: it has one attempt fewer, or has failed if there was none left. Answers with what is left.
function Failures.retry(now, jid, queue, worker, delay, group, message)
  local values = Qless.Holder.held('Retry', jid, worker, 'queue', 'priority', 'remaining', 'history')
  local old_queue, priority = values[3] or '', stored_number(values[4], 0)
  local remaining = (stored_number(values[5], 0)) - 1
  local key = 'ql:j:' .. jid
  local told = group and message and {group = group, message = message, when = math.floor(now), worker = worker}
  call('ZADD', 'ql:queues', 'NX', now, queue)
  call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)
  if remaining >= 0 then
    call('HMSET', key, 'remaining', remaining, 'queue', queue, 'state', delay > 0 and 'scheduled' or 'waiting')
    if told then
      call('HSET', key, 'failure', cjson.encode(told))
    end
    call('HDEL', key, 'grace')
    call('ZREM', 'ql:q:' .. old_queue .. '-locks', jid)
    if delay > 0 then
      call('ZADD', 'ql:q:' .. queue .. '-scheduled', now + delay, jid)
    else
      call('ZADD', 'ql:q:' .. queue .. '-work', priority - now / 10000000000, jid)
    end
    return remaining
  end
  group = group or 'failed-retries-' .. queue
  local failure = told or Failures.exhausted(now, group, old_queue)
  Failures.record(now, jid, old_queue, queue, failure, {'remaining', remaining, 'queue', queue})
  remember(key, cjson.encode({math.floor(now), 'failed', {group = group}}), values[6])
  Qless.Events.tell_trackers(jid, 'ql:failed')
  return remaining
end

-- What a job's record says when its retries are used up. (Unlike everywhere else `when` is not rounded.)
function Failures.exhausted(now, group, queue)
  return {group = group, message = 'Job exhausted retries in queue "' .. queue .. '"', when = now, worker = ''}
end

function Failures.groups()
  local found = {}
  for _, group in ipairs(call('SMEMBERS', 'ql:failures')) do
    found[group] = call('LLEN', 'ql:f:' .. group)
  end
  return found
end

function Failures.list(group, start, limit)
  local key = 'ql:f:' .. group
  return {total = call('LLEN', key), jobs = limit > 0 and call('LRANGE', key, start, start + limit - 1) or {}}
end

-- Put the oldest failures of a group back in line. Answers with their number.
function Failures.unfail(now, queue, group, count)
  local list = 'ql:f:' .. group
  local jids = count > 0 and call('LRANGE', list, -count, -1) or {}
  local put_back = 0
  for i = #jids, 1, -1 do
    local jid = jids[i]
    local key = 'ql:j:' .. jid
    local exists, priority, retries, old_queue, failure, history = unpack(
      call('HMGET', key, 'jid', 'priority', 'retries', 'queue', 'failure', 'history'))
    if exists then
      call('HMSET', key, 'state', 'waiting', 'worker', '', 'expires', 0, 'queue', queue,
        'remaining', stored_number(retries, 5))
      remember(key, cjson.encode({math.floor(now), 'put', {q = queue}}), history)
      call('ZADD', 'ql:q:' .. queue .. '-work', (stored_number(priority, 0)) - now / 10000000000, jid)
      Qless.Statistics.no_longer_failed(old_queue, Qless.Values.stored(failure))
      put_back = put_back + 1
    end
  end
  if #jids > 0 then
    call('LTRIM', list, 0, -#jids - 1)
    drop_empty(group)
  end
  if put_back > 0 then
    call('ZADD', 'ql:queues', 'NX', now, queue)
  end
  return put_back
end
