-- The good end of a run: a job is complete, or goes on to its next queue.

-- Complete a job. With `to` it goes on in that queue after `delay` seconds and once the jobs it `depends` on are complete;
-- jobs that depend on it go on waiting then. Answers with the job's new state.
function Completion.complete(now, jid, worker, queue, data, to, delay, depends)
  local key = 'ql:j:' .. jid
  local state, holder, job_queue, priority, retries, time, history, grace = unpack(call('HMGET', key,
    'state', 'worker', 'queue', 'priority', 'retries', 'time', 'history', 'grace'))
  if state ~= 'running' or holder ~= worker then
    Qless.Holder.refuse('Complete', jid, state, holder)
  end
  if job_queue ~= queue then
    error('Complete(): Job ' .. jid .. ' running in another queue: ' .. tostring(job_queue))
  end
  local most_entries, seconds, most = unpack(
    call('HMGET', 'ql:config', 'max-job-history', 'jobs-history', 'jobs-history-count'))
  call('HMSET', key, 'data', data, 'state', to and 'waiting' or 'complete', 'worker', '', 'failure', '{}',
    'queue', to or '', 'expires', '0', 'remaining', retries or '5', 'time', time_text(now))
  if grace then
    call('HDEL', key, 'grace')
  end
  remember(key, string.format('[%d,"done"]', math.floor(now)), history, most_entries)
  if call('ZREM', 'ql:q:' .. queue .. '-locks', jid) == 0 then
    -- Not where it should be: somebody else's script may have left it in another place.
    call('ZREM', 'ql:q:' .. queue .. '-work', jid)
    call('ZREM', 'ql:q:' .. queue .. '-scheduled', jid)
  end
  call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)
  time = stored_number(time)
  Qless.Samples.add(now, 'run', queue, time and now - time or 0)
  if call('ZSCORE', 'ql:tracked', jid) then
    call('PUBLISH', 'ql:completed', jid)
  end
  if to then
    call('PUBLISH', 'ql:log', cjson.encode({jid = jid, event = 'advanced', queue = queue, to = to}))
    remember(key, cjson.encode({math.floor(now), 'put', {q = to}}), nil, most_entries)
    return Qless.After.advance(now, jid, stored_number(priority, 0), to, delay, depends)
  end
  call('PUBLISH', 'ql:log', '{"jid":' .. cjson.encode(jid) .. ',"event":"completed","queue":' .. cjson.encode(queue) .. '}')
  call('ZADD', 'ql:completed', now, jid)
  local doomed = call('ZRANGEBYSCORE', 'ql:completed', 0, now - (option(seconds, 604800)), 'LIMIT', 0, Qless.CHUNK)
  local too_many = call('ZCARD', 'ql:completed') - #doomed - (math.floor(option(most, 50000)))
  if doomed[1] or too_many > 0 then
    Qless.After.purge(doomed, too_many)
  end
  local dependents = call('SMEMBERS', key .. '-dependents')
  if dependents[1] then
    Qless.Dependencies.release(now, jid, dependents)
  end
  return 'complete'
end
