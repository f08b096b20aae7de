-- Handing jobs to workers, and taking them from workers whose locks have ended.
local Pop = {}
Qless.Pop = Pop

-- The first end of a lock is only a warning: the worker is told, and has `grace` more seconds.
local function warn(now, queue, jid, worker, grace, history, most_entries)
  local key = 'ql:j:' .. jid
  call('HSET', key, 'grace', 1)
  call('ZADD', 'ql:q:' .. queue .. '-locks', now + grace, jid)
  Qless.History.append(now, key, 'timed-out', nil, history, most_entries)
  Qless.Events.tell_trackers(jid, 'ql:stalled')
  Qless.Events.tell(worker, {jid = jid, event = 'lock_lost', worker = worker})
  Qless.Statistics.count(now, queue, 'retries', 1)
end

-- The second end of a lock costs the job an attempt. True if it has another one; if not, it has failed.
local function take_away(now, queue, jid, worker, job_queue, remaining, history, most_entries)
  local key = 'ql:j:' .. jid
  remaining = remaining - 1
  if remaining >= 0 then
    call('HSET', key, 'remaining', remaining)
    call('HDEL', key, 'grace')
    return true
  end
  local group = 'failed-retries-' .. job_queue
  local failure = Qless.Failures.exhausted(now, group, job_queue)
  Qless.Failures.record(now, jid, queue, queue, failure, {'remaining', remaining})
  Qless.History.append(now, key, 'failed', {group = group}, history, most_entries)
  Qless.Events.tell_trackers(jid, 'ql:failed')
  call('PUBLISH', 'ql:log', encode(
    {jid = jid, event = 'failed', group = group, worker = worker, message = failure.message}))
  return false
end

-- Deal with up to `count` locks that have ended. Answers with the jids that are free to be handed on.
local function expire(now, queue, count, grace, most_entries)
  local locks = 'ql:q:' .. queue .. '-locks'
  local free = {}
  for _, jid in ipairs(call('ZRANGEBYSCORE', locks, '-inf', now, 'LIMIT', 0, count)) do
    local exists, worker, job_queue, remaining, warned, history = unpack(
      call('HMGET', 'ql:j:' .. jid, 'jid', 'worker', 'queue', 'remaining', 'grace', 'history'))
    if not exists then
      call('ZREM', locks, jid)
    else
      worker = worker or ''
      call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)
      local is_warned = grace > 0 and warned == '1'
      if not is_warned then
        warn(now, queue, jid, worker, grace, history, most_entries)
        history = nil
      end
      if is_warned or grace <= 0 then
        if take_away(now, queue, jid, worker, job_queue or queue, tonumber(remaining) or 0, history, most_entries) then
          free[#free + 1] = jid
        end
      end
    end
  end
  return free
end

-- The records of jobs to hand out or show: those that are free, and as many from the line as are missing. A jid without a
-- record is dropped: it would block the queue for ever.
local function collect(queue, jids, count)
  local found = {}
  local work = 'ql:q:' .. queue .. '-work'
  for _, jid in ipairs(jids) do
    local values = Qless.Job.read(jid)
    if values[1] then
      found[#found + 1] = values
    end
  end
  local start = 0
  while #found < count do
    local missing = math.min(count - #found, CHUNK)
    local waiting = call('ZREVRANGE', work, start, start + missing - 1)
    local dropped = 0
    for _, jid in ipairs(waiting) do
      local values = Qless.Job.read(jid)
      if values[1] then
        found[#found + 1] = values
      else
        call('ZREM', work, jid)
        dropped = dropped + 1
      end
    end
    if #waiting < missing then
      break
    end
    start = start + #waiting - dropped
  end
  return found
end

-- Which of the jobs are tracked. (Usually nobody tracks anything.)
local function tracked_ones(jobs)
  local found = {}
  if call('ZCARD', 'ql:tracked') > 0 then
    for _, values in ipairs(jobs) do
      found[values[1]] = call('ZSCORE', 'ql:tracked', values[1]) and true
    end
  end
  return found
end

-- Record for all jobs of a batch that a worker has them until `expires`, in their own order.
local function lock(now, queue, worker, jobs, expires, tracked, most_entries)
  local scores, jids, samples = {}, {}, {}
  local time = string.format('%.20f', now)
  for i, values in ipairs(jobs) do
    local jid = values[1]
    local key = 'ql:j:' .. jid
    call('HMSET', key, 'worker', worker, 'expires', expires, 'state', 'running', 'time', time)
    Qless.History.append(now, key, 'popped', {worker = worker}, values[14], most_entries)
    local since = tonumber(values[15])
    samples[i] = since and now - since or 0
    scores[2 * i - 1], scores[2 * i], jids[i] = expires, jid, jid
    values[3], values[5], values[7], values[14] = 'running', worker, expires, false
    if tracked[jid] then
      call('PUBLISH', 'ql:popped', jid)
    end
  end
  Qless.Values.call_with('ZADD', 'ql:w:' .. worker .. ':jobs', scores)
  Qless.Values.call_with('ZADD', 'ql:q:' .. queue .. '-locks', scores)
  Qless.Values.call_with('ZREM', 'ql:q:' .. queue .. '-work', jids)
  Qless.Samples.add(now, 'wait', queue, samples)
end

local function objects(jobs, tracked)
  local found = {}
  for i, values in ipairs(jobs) do
    found[i] = Qless.Job.object(values, tracked[values[1]] or false)
  end
  return found
end

-- Occurrences of recurring jobs and scheduled jobs get in line, as many as there is demand for.
local function replenish(now, queue, count)
  if count > 0 then
    Qless.Recurring.spawn(now, queue, count)
    Qless.Queue.promote(now, queue, count)
  end
end

-- Hand up to `count` jobs to a worker.
function Pop.pop(now, queue, worker, count)
  if call('SISMEMBER', 'ql:paused_queues', queue) == 1 then
    return {}
  end
  call('ZADD', 'ql:workers', now, worker)
  local limit, own, published, general, grace, most_entries = unpack(call('HMGET', 'ql:config',
    queue .. '-max-concurrency', queue .. '-heartbeat', 'heartbeat-' .. queue, 'heartbeat', 'grace-period',
    'max-job-history'))
  limit = tonumber(limit) or 0
  if limit > 0 then
    count = math.min(count, floor(limit - call('ZCOUNT', 'ql:q:' .. queue .. '-locks', now, '+inf')))
  end
  if count <= 0 then
    return {}
  end
  local free = expire(now, queue, count, tonumber(grace) or 10, most_entries)
  replenish(now, queue, count - #free)
  local jobs = collect(queue, free, count)
  if #jobs == 0 then
    return {}
  end
  local tracked = tracked_ones(jobs)
  local heartbeat = tonumber(own) or tonumber(published) or tonumber(general) or 60
  lock(now, queue, worker, jobs, now + heartbeat, tracked, most_entries)
  return objects(jobs, tracked)
end

-- Show what a pop would consider.
function Pop.peek(now, queue, count)
  if count <= 0 then
    return {}
  end
  local ended = call('ZRANGEBYSCORE', 'ql:q:' .. queue .. '-locks', '-inf', now, 'LIMIT', 0, count)
  replenish(now, queue, count - #ended)
  local jobs = collect(queue, ended, count)
  return objects(jobs, tracked_ones(jobs))
end

return Pop
