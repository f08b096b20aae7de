-- The good end of a run: a job is complete, or goes on to its next queue.
local Completion = {}
Qless.Completion = Completion

-- Forget completed jobs that are too old, and then those that are too many. Both in bounded steps: what is left over
-- goes with the next completions.
local function retain(now, seconds, most)
  local doomed = call('ZRANGEBYSCORE', 'ql:completed', 0, now - seconds, 'LIMIT', 0, CHUNK)
  local too_many = call('ZCARD', 'ql:completed') - #doomed - most
  if too_many > 0 and #doomed < CHUNK then
    local first = #doomed
    for _, jid in ipairs(call('ZRANGE', 'ql:completed', first, first + math.min(too_many, CHUNK) - 1)) do
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

-- On to the next queue. `depends` (a list) and `delay` hold there. Answers with the job's new state.
local function advance(now, jid, priority, to, delay, depends)
  local key = 'ql:j:' .. jid
  local waits_for = depends and Qless.Dependencies.unsatisfied(jid, depends) or {}
  if #waits_for > 0 then
    Qless.Dependencies.add(jid, waits_for)
    call('ZADD', 'ql:q:' .. to .. '-depends', now, jid)
    if delay > 0 then
      call('HSET', key, 'scheduled', now + delay)
    end
    return 'depends'
  elseif delay > 0 then
    call('ZADD', 'ql:q:' .. to .. '-scheduled', now + delay, jid)
    return 'scheduled'
  end
  call('ZADD', 'ql:q:' .. to .. '-work', priority - now / 10000000000, jid)
  return 'waiting'
end

-- Complete a job. With `to` it goes on in that queue after `delay` seconds and once the jobs it `depends` on are complete;
-- jobs that depend on it go on waiting then. Answers with the job's new state.
function Completion.complete(now, jid, worker, queue, data, to, delay, depends)
  local _, _, job_queue, priority, retries, time, history, grace = unpack(Qless.Holder.held('Complete', jid, worker,
    'queue', 'priority', 'retries', 'time', 'history', 'grace'))
  if job_queue ~= queue then
    error('Complete(): Job ' .. jid .. ' running in another queue: ' .. tostring(job_queue))
  end
  local key = 'ql:j:' .. jid
  local most_entries, seconds, most = unpack(
    call('HMGET', 'ql:config', 'max-job-history', 'jobs-history', 'jobs-history-count'))
  call('HMSET', key, 'data', data, 'state', to and 'waiting' or 'complete', 'worker', '', 'failure', '{}',
    'queue', to or '', 'expires', 0, 'remaining', tonumber(retries) or 5, 'time', string.format('%.20f', now))
  if grace then
    call('HDEL', key, 'grace')
  end
  Qless.History.append(key, '[' .. floor(now) .. ',"done"]', history, most_entries)
  if call('ZREM', 'ql:q:' .. queue .. '-locks', jid) == 0 then
    -- Not where it should be: somebody else's script may have left it in another place.
    call('ZREM', 'ql:q:' .. queue .. '-work', jid)
    call('ZREM', 'ql:q:' .. queue .. '-scheduled', jid)
  end
  call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)
  time = tonumber(time)
  Qless.Samples.add(now, 'run', queue, {time and now - time or 0})
  Qless.Events.tell_trackers(jid, 'ql:completed')
  if to then
    call('PUBLISH', 'ql:log', encode({jid = jid, event = 'advanced', queue = queue, to = to}))
    Qless.History.append(key, encode({floor(now), 'put', {q = to}}), nil, most_entries)
    call('ZADD', 'ql:queues', 'NX', now, to)
    local state = advance(now, jid, tonumber(priority) or 0, to, delay, depends)
    if state ~= 'waiting' then
      call('HSET', key, 'state', state)
    end
    return state
  end
  call('PUBLISH', 'ql:log', encode({jid = jid, event = 'completed', queue = queue}))
  call('ZADD', 'ql:completed', now, jid)
  retain(now, tonumber(seconds) or 604800, tonumber(most) or 50000)
  Qless.Dependencies.release(now, jid)
  return 'complete'
end

return Completion
