-- What may come after a completion: the next queue, and the end of older completed jobs.

-- On to the next queue. `depends` (a list) and `delay` hold there. Answers with the job's new state.
function After.advance(now, jid, priority, to, delay, depends)
  local key = 'ql:j:' .. jid
  local waits_for = depends and Qless.Dependencies.unsatisfied(jid, depends) or {}
  call('ZADD', 'ql:queues', 'NX', now, to)
  if waits_for[1] then
    Qless.Dependencies.add(jid, waits_for)
    call('ZADD', 'ql:q:' .. to .. '-depends', now, jid)
    call('HSET', key, 'state', 'depends')
    if delay > 0 then
      call('HSET', key, 'scheduled', now + delay)
    end
    return 'depends'
  elseif delay > 0 then
    call('ZADD', 'ql:q:' .. to .. '-scheduled', now + delay, jid)
    call('HSET', key, 'state', 'scheduled')
    return 'scheduled'
  end
  call('ZADD', 'ql:q:' .. to .. '-work', priority - now / 10000000000, jid)
  return 'waiting'
end

-- Forget completed jobs: those that are `doomed`, being too old, and the oldest of the rest if these are too many. In
-- bounded steps: what is left over goes with the next completions.
function After.purge(doomed, too_many)
  if too_many > 0 and #doomed < Qless.CHUNK then
    local first = #doomed
    for _, jid in ipairs(call('ZRANGE', 'ql:completed', first, first + math.min(too_many, Qless.CHUNK) - 1)) do
      doomed[#doomed + 1] = jid
    end
  end
  for _, jid in ipairs(doomed) do
    local key = 'ql:j:' .. jid
    Qless.Tags.forget(jid, Qless.Values.stored(call('HGET', key, 'tags')))
    call('DEL', key, key .. '-history')
    call('ZREM', 'ql:completed', jid)
  end
end
