-- Handing jobs to workers.

-- Occurrences of recurring jobs and scheduled jobs get in line, as many as there is demand for.
local function replenish(now, queue, count)
  if count > 0 then
    local prefix = 'ql:q:' .. queue
    local recurring = call('ZRANGEBYSCORE', prefix .. '-recur', 0, now, 'WITHSCORES', 'LIMIT', 0, count)
    if recurring[1] then
      Qless.Recurring.spawn(now, queue, recurring, count)
    end
    local due = call('ZRANGEBYSCORE', prefix .. '-scheduled', 0, now, 'LIMIT', 0, count)
    if due[1] then
      Qless.Queue.promote(now, queue, due)
    end
  end
end

-- The records of jobs to hand out or show: those that are free, and as many from the line as are missing, none of them
-- twice. A jid without a record is dropped: it would block the queue for ever.
local function collect(queue, jids, count)
  local found, seen, read = {}, {}, Qless.Job.read
  local work = 'ql:q:' .. queue .. '-work'
  for _, jid in ipairs(jids) do
    local values = read(jid)
    if values[1] then
      found[#found + 1] = values
      seen[jid] = true
    end
  end
  local start = 0
  while #found < count do
    local missing = math.min(count - #found, Qless.CHUNK)
    local waiting = call('ZREVRANGE', work, start, start + missing - 1)
    local dropped = 0
    for i = 1, #waiting do
      local values = read(waiting[i])
      if values[1] then
        if not seen[waiting[i]] then
          found[#found + 1] = values
        end
      else
        call('ZREM', work, waiting[i])
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

local function objects(jobs, tracked)
  local found, object = {}, Qless.Job.object
  for i = 1, #jobs do
    found[i] = object(jobs[i], tracked[jobs[i][1]] or false)
  end
  return found
end

-- Record for all jobs of a batch that a worker has them until `expires`, in their own order.
local function lock(now, queue, worker, jobs, expires, tracked, most_entries)
  local scores, jids, samples = {}, {}, {}
  -- Text that is the same for all is made once.
  local time, entry = time_text(now), cjson.encode({math.floor(now), 'popped', {worker = worker}})
  local ends = string.format('%.17g', expires)
  for i = 1, #jobs do
    local values = jobs[i]
    local jid = values[1]
    local key = 'ql:j:' .. jid
    call('HMSET', key, 'worker', worker, 'expires', ends, 'state', 'running', 'time', time)
    remember(key, entry, values[14], most_entries)
    local since = stored_number(values[15])
    samples[i] = since and now - since or 0
    scores[2 * i - 1], scores[2 * i], jids[i] = ends, jid, jid
    values[3], values[5], values[7], values[14] = 'running', worker, expires, false
    if tracked[jid] then
      call('PUBLISH', 'ql:popped', jid)
    end
  end
  local call_with = Qless.Values.call_with
  call_with('ZADD', 'ql:w:' .. worker .. ':jobs', scores)
  call_with('ZADD', 'ql:q:' .. queue .. '-locks', scores)
  call_with('ZREM', 'ql:q:' .. queue .. '-work', jids)
  Qless.Batch.add(now, 'wait', queue, samples)
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
  limit = option(limit, 0)
  if limit > 0 then
    count = math.min(count, math.floor(limit - call('ZCOUNT', 'ql:q:' .. queue .. '-locks', now, '+inf')))
  end
  if count <= 0 then
    return {}
  end
  local free = call('ZRANGEBYSCORE', 'ql:q:' .. queue .. '-locks', '-inf', now, 'LIMIT', 0, count)
  if free[1] then
    free = Qless.Locks.expire(now, queue, free, option(grace, 10), most_entries)
  end
  replenish(now, queue, count - #free)
  local jobs = collect(queue, free, count)
  if not jobs[1] then
    return {}
  end
  local tracked = tracked_ones(jobs)
  local heartbeat = option(own) or option(published) or option(general, 60)
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
