-- A job: the hash `ql:j:<jid>` and the keys beside it.
local Job = {}
Qless.Job = Job

-- The fields that a job object is made of, in the order in which `Job.object` takes them.
local FIELDS = {
  'jid', 'klass', 'state', 'queue', 'worker', 'priority', 'expires', 'retries', 'remaining', 'data', 'tags', 'failure',
  'spawned_from_jid', 'history', 'time',
}

function Job.read(jid)
  return call('HMGET', 'ql:j:' .. jid, unpack(FIELDS))
end

-- A job as clients see it: always these 17 keys. A missing field is `false` where nothing better is known.
function Job.object(values, tracked)
  local jid = values[1]
  local key = 'ql:j:' .. jid
  return {
    jid = jid,
    klass = values[2],
    state = values[3],
    queue = values[4],
    worker = values[5] or '',
    tracked = tracked,
    priority = tonumber(values[6]) or 0,
    expires = tonumber(values[7]) or 0,
    retries = tonumber(values[8]) or 0,
    remaining = floor(tonumber(values[9]) or 0),
    data = values[10],
    tags = Qless.Values.stored(values[11]),
    failure = Qless.Values.stored(values[12]),
    spawned_from_jid = values[13],
    history = Qless.History.read(key, values[14]),
    dependents = call('SMEMBERS', key .. '-dependents'),
    dependencies = call('SMEMBERS', key .. '-dependencies'),
  }
end

-- A job object, or nil if there is no such job.
function Job.get(jid)
  local values = Job.read(jid)
  if values[1] then
    return Job.object(values, call('ZSCORE', 'ql:tracked', jid) and true)
  end
end

-- Those of the jobs that exist, in the order asked for.
function Job.get_all(jids)
  local found = {}
  for _, jid in ipairs(jids) do
    found[#found + 1] = Job.get(jid)
  end
  return found
end

-- The fields that an act on a job needs. An error unless the job exists.
function Job.existing(command, jid, ...)
  local values = call('HMGET', 'ql:j:' .. jid, 'state', ...)
  if not values[1] then
    error(command .. '(): Job ' .. jid .. ' does not exist')
  end
  return values
end

-- The fields of a job that a worker holds: state, worker, and those asked for. An error unless it does hold it. That its
-- lock has ended is no obstacle as long as nobody else has got the job.
function Job.held(command, jid, worker, ...)
  local values = Job.existing(command, jid, 'worker', ...)
  if values[1] ~= 'running' then
    error(command .. '(): Job ' .. jid .. ' not currently running: ' .. values[1])
  end
  if values[2] ~= worker then
    error(command .. '(): Job ' .. jid .. ' given out to another worker: ' .. tostring(values[2]))
  end
  return values
end

-- Extend a worker's lock, and store new data if there are any. Answers with the time at which the lock will end.
function Job.heartbeat(now, jid, worker, data)
  local values = Job.held('Heartbeat', jid, worker, 'queue', 'grace')
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

-- Change a job's priority. If it waits its place changes: the bare priority puts it before its equals.
function Job.set_priority(jid, priority)
  local queue = call('HGET', 'ql:j:' .. jid, 'queue')
  if not queue then
    error('Priority(): Job ' .. jid .. ' does not exist')
  end
  call('HSET', 'ql:j:' .. jid, 'priority', priority)
  call('ZADD', 'ql:q:' .. queue .. '-work', 'XX', priority, jid)
  return priority
end

-- Add an entry of the client's own to the history.
function Job.log(now, jid, message, extra)
  local values = Job.existing('Log', jid, 'history')
  Qless.History.append(now, 'ql:j:' .. jid, message, extra, values[2])
end

function Job.tag(now, jid, tags)
  local values = Job.existing('Tag', jid, 'tags')
  local all, added = Qless.Tags.with(Qless.Values.stored(values[2]), tags)
  call('HSET', 'ql:j:' .. jid, 'tags', encode(all))
  Qless.Tags.index(now, jid, added)
  return all
end

function Job.untag(jid, tags)
  local values = Job.existing('Tag', jid, 'tags')
  local left, removed = Qless.Tags.without(Qless.Values.stored(values[2]), tags)
  call('HSET', 'ql:j:' .. jid, 'tags', encode(left))
  Qless.Tags.forget(jid, removed)
  return left
end

-- Take jobs from their workers by hand: they go to the very front of their queues.
function Job.time_out(now, jids)
  local all = {}
  for i, jid in ipairs(jids) do
    local values = Job.existing('Timeout', jid, 'worker', 'queue', 'history')
    if values[1] ~= 'running' then
      error('Timeout(): Job ' .. jid .. ' not running: ' .. values[1])
    end
    all[i] = values
  end
  for i, jid in ipairs(jids) do
    local worker, queue, history = all[i][2] or '', all[i][3] or '', all[i][4]
    local key = 'ql:j:' .. jid
    Qless.History.append(now, key, 'timed-out', nil, history)
    call('ZREM', 'ql:q:' .. queue .. '-locks', jid)
    call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)
    call('ZADD', 'ql:q:' .. queue .. '-work', '+inf', jid)
    call('HMSET', key, 'state', 'stalled', 'expires', 0)
    Qless.Events.tell(worker, {jid = jid, event = 'lock_lost', worker = worker})
  end
end

return Job
