-- Recurring jobs: the hash `ql:r:<jid>`, and its next occurrence in `ql:q:<q>-recur`.

-- Make a recurring job, or replace one (which goes on counting where it was). `new` has queue, jid, klass, data, interval
-- and offset (or `at`, when it occurs first), and may have priority, tags (a list), retries and backlog.
function Recurring.recur(now, new)
  local key = 'ql:r:' .. new.jid
  local old_queue, count = unpack(call('HMGET', key, 'queue', 'count'))
  call('HMSET', key, 'jid', new.jid, 'klass', new.klass, 'data', new.data, 'priority', new.priority or 0,
    'tags', cjson.encode(new.tags or {}), 'state', 'recur', 'queue', new.queue, 'type', 'interval',
    'count', stored_number(count, 0), 'interval', new.interval, 'retries', new.retries or 0, 'backlog', new.backlog or 0)
  if old_queue and old_queue ~= new.queue then
    call('ZREM', 'ql:q:' .. old_queue .. '-recur', new.jid)
  end
  call('ZADD', 'ql:q:' .. new.queue .. '-recur', new.at or now + new.offset, new.jid)
  call('ZADD', 'ql:queues', 'NX', now, new.queue)
  return new.jid
end

-- An object, or nil.
function Recurring.get(jid)
  local found, klass, state, queue, priority, interval, retries, count, data, tags, backlog = unpack(call('HMGET',
    'ql:r:' .. jid, 'jid', 'klass', 'state', 'queue', 'priority', 'interval', 'retries', 'count', 'data', 'tags',
    'backlog'))
  if found then
    return {
      jid = found,
      klass = klass,
      state = state,
      queue = queue,
      priority = stored_number(priority, 0),
      interval = stored_number(interval, 0),
      retries = stored_number(retries, 0),
      count = stored_number(count, 0),
      data = data,
      tags = Qless.Values.stored(tags),
      backlog = stored_number(backlog, 0),
    }
  end
end

-- Make one occurrence, due at `due`, a job.
local function occur(now, record, due)
  local jid = record.jid .. '-' .. string.format('%.0f', record.count)
  local key = 'ql:j:' .. jid
  call('HMSET', key, 'jid', jid, 'klass', record.klass, 'data', record.data, 'priority', record.priority,
    'tags', cjson.encode(record.tags), 'state', 'waiting', 'worker', '', 'expires', 0, 'queue', record.queue,
    'retries', record.retries, 'remaining', record.retries, 'time', time_text(due),
    'spawned_from_jid', record.jid)
  remember(key, cjson.encode({math.floor(due), 'put', {q = record.queue}}))
  Qless.Tags.index(now, jid, record.tags)
  call('ZADD', 'ql:q:' .. record.queue .. '-work', record.priority - due / 10000000000, jid)
end

-- Occurrences of those that are due (a list of jids and times) get in line, at most so many: those that are not needed yet
-- are made by a later call.
function Recurring.spawn(now, queue, due_ones, most)
  local recur = 'ql:q:' .. queue .. '-recur'
  local spawned = 0
  for i = 1, #due_ones, 2 do
    local record, due = Recurring.get(due_ones[i]), math.floor(tonumber(due_ones[i + 1]))
    if not record or record.interval <= 0 then
      -- No record, or one that would occur without end: it can only block the queue.
      call('ZREM', recur, due_ones[i])
    else
      record.queue = queue
      if record.backlog ~= 0 then
        local missed = (now - due) / record.interval
        if missed > record.backlog then
          due = due + math.ceil(missed - record.backlog) * record.interval
        end
      end
      local count = record.count
      while due <= now and spawned < most do
        record.count = record.count + 1
        occur(now, record, due)
        due = due + record.interval
        spawned = spawned + 1
      end
      if record.count > count then
        call('HSET', 'ql:r:' .. record.jid, 'count', record.count)
        call('ZADD', recur, due, record.jid)
      end
    end
  end
end

-- Change attributes: a list of {name, value}, checked by the caller, applied from left to right.
function Recurring.update(now, jid, changes)
  local key = 'ql:r:' .. jid
  for _, change in ipairs(changes) do
    local name, value = change[1], change[2]
    local queue = call('HGET', key, 'queue') or ''
    local recur = 'ql:q:' .. queue .. '-recur'
    if name == 'interval' then
      local old = stored_number(call('HGET', key, 'interval'), 0)
      if call('ZSCORE', recur, jid) then
        call('ZINCRBY', recur, value - old, jid)
      end
    elseif name == 'queue' then
      local next_time = call('ZSCORE', recur, jid)
      call('ZREM', recur, jid)
      if next_time then
        call('ZADD', 'ql:q:' .. value .. '-recur', next_time, jid)
      end
      call('ZADD', 'ql:queues', 'NX', now, value)
    end
    call('HSET', key, name, value)
  end
end

-- An error unless there is such a recurring job.
function Recurring.existing(command, jid)
  local record = Recurring.get(jid)
  if not record then
    error(command .. '(): Job ' .. jid .. ' does not exist')
  end
  return record
end

-- Tags are for the jobs to come: no index knows the recurring job itself. `change` is `with` or `without` (some).
function Recurring.retag(jid, change, tags)
  local changed = Qless.Tags[change](Recurring.existing('Recur', jid).tags, tags)
  call('HSET', 'ql:r:' .. jid, 'tags', cjson.encode(changed))
  return changed
end

-- No more occurrences. Jobs that came of it stay.
function Recurring.unrecur(jid)
  local queue = call('HGET', 'ql:r:' .. jid, 'queue')
  if queue then
    call('ZREM', 'ql:q:' .. queue .. '-recur', jid)
    call('DEL', 'ql:r:' .. jid)
  end
end
