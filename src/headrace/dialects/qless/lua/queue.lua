-- A queue: five zsets, `ql:q:<q>-work`, `-locks`, `-scheduled`, `-depends` and `-recur`. It needs no declaration.

-- Scheduled jobs whose time has come get in line.
function Queue.promote(now, queue, jids)
  local prefix = 'ql:q:' .. queue
  for _, jid in ipairs(jids) do
    local exists, priority = unpack(call('HMGET', 'ql:j:' .. jid, 'jid', 'priority'))
    call('ZREM', prefix .. '-scheduled', jid)
    if exists then
      call('ZADD', prefix .. '-work', (stored_number(priority, 0)) - now / 10000000000, jid)
      call('HSET', 'ql:j:' .. jid, 'state', 'waiting')
    end
  end
end

local function promote_some(now, queue)
  Queue.promote(now, queue, call('ZRANGEBYSCORE', 'ql:q:' .. queue .. '-scheduled', 0, now, 'LIMIT', 0, Qless.CHUNK))
end

-- Counts as they are with everything due promoted. (More than `CHUNK` jobs at once are only counted as if they were, so
-- that nobody has to wait for it.)
function Queue.counts(now, queue)
  local prefix = 'ql:q:' .. queue
  promote_some(now, queue)
  local due = call('ZCOUNT', prefix .. '-scheduled', 0, now)
  local stalled = call('ZCOUNT', prefix .. '-locks', 0, now)
  return {
    name = queue,
    waiting = call('ZCARD', prefix .. '-work') + due,
    stalled = stalled,
    running = call('ZCARD', prefix .. '-locks') - stalled,
    scheduled = call('ZCARD', prefix .. '-scheduled') - due,
    depends = call('ZCARD', prefix .. '-depends'),
    recurring = call('ZCARD', prefix .. '-recur'),
    paused = call('SISMEMBER', 'ql:paused_queues', queue) == 1,
  }
end

function Queue.all_counts(now)
  local found = {}
  for i, queue in ipairs(call('ZRANGE', 'ql:queues', 0, -1)) do
    found[i] = Queue.counts(now, queue)
  end
  return found
end

-- Jobs that are running, stalled, scheduled, depends or recurring, in a queue.
function Queue.jobs(now, state, queue, offset, count)
  local prefix = 'ql:q:' .. queue
  if state == 'running' then
    return call('ZRANGEBYSCORE', prefix .. '-locks', now, '+inf', 'LIMIT', offset, count)
  elseif state == 'stalled' then
    return call('ZRANGEBYSCORE', prefix .. '-locks', '-inf', now, 'LIMIT', offset, count)
  elseif state == 'scheduled' then
    promote_some(now, queue)
    return call('ZRANGEBYSCORE', prefix .. '-scheduled', string.format('(%.17g', now), '+inf', 'LIMIT', offset, count)
  elseif state == 'depends' then
    return call('ZRANGEBYSCORE', prefix .. '-depends', '-inf', '+inf', 'LIMIT', offset, count)
  elseif state == 'recurring' then
    return call('ZRANGEBYSCORE', prefix .. '-recur', 0, '+inf', 'LIMIT', offset, count)
  end
  error('Jobs(): Unknown type "' .. state .. '"')
end

-- Completed jobs of all queues, newest first.
function Queue.complete_jobs(offset, count)
  return call('ZREVRANGEBYSCORE', 'ql:completed', '+inf', '-inf', 'LIMIT', offset, count)
end

function Queue.length(queue)
  local prefix = 'ql:q:' .. queue
  return call('ZCARD', prefix .. '-locks') + call('ZCARD', prefix .. '-work') + call('ZCARD', prefix .. '-scheduled')
end

function Queue.pause(queues)
  Qless.Values.call_with('SADD', 'ql:paused_queues', queues)
end

function Queue.unpause(queues)
  Qless.Values.call_with('SREM', 'ql:paused_queues', queues)
end

function Queue.forget(queues)
  Qless.Values.call_with('ZREM', 'ql:queues', queues)
end
