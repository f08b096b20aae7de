-- Jobs: finding them, their records beside the protocol's hash, ending them, putting them back in line.
--
-- Fields of a record, all optional: id (ours), task and queue (where they are not the function), options, max (crashes),
-- priority, created, due, attempts, crashes, token, ref (the hand-out), session, worker, level (taken from), number (of
-- the exchange that took it), label (of the queue it was asked for by), spare, started, finished, data, error, group, deferred, cancelling, state (`cancelled`),
-- result (how the output was made from it: n none, t text, b bytes, j as it is).

local function table_of(flat)
  local found = {}
  for i = 1, #flat, 2 do
    found[flat[i]] = flat[i + 1]
  end
  return found
end

-- Where a job is: by the id we gave it, or FN:ID.
local function locate(id)
  return (call('GET', id_key(id)) or id):match('^(.+):(%d+)$')
end

local function read_record(fn, number)
  return table_of(call('HGETALL', record_key(fn, number)))
end

local function id_of(record, fn, number)
  return record.id or (fn .. ':' .. number)
end

-- Released jobs wait here until all are known: the earliest must end up at the very right.
local put_back = {}

-- Back in line as the next one to run.
local function give_back(fn, number, level, due)
  put_back[#put_back + 1] = { fn = fn, number = number, level = level, due = due }
end

local function flush_put_back()
  table.sort(put_back, function(a, b) return tonumber(a.number) > tonumber(b.number) end)
  for _, job in ipairs(put_back) do
    call('HSET', job_key(job.fn, job.number), 'status', 'idle')
    if job.level == 'scheduled' then
      call('ZADD', queue_key(job.fn, 'scheduled'), job.due, job.number)
    else
      call('RPUSH', queue_key(job.fn, job.level), job.number)
    end
    call('PUBLISH', SIDE .. job.fn .. ':wake', job.number)
  end
  put_back = {}
end

-- Back in line as a newcomer, at once or from a second on. Answers with when it is due.
local function line_up(fn, number, level, due)
  if due > now then
    local second = math.ceil(due / 1000)
    call('ZADD', queue_key(fn, 'scheduled'), second, number)
    return second * 1000
  end
  call('LPUSH', queue_key(fn, level), number)
  return due
end

local function remove_from_line(fn, number)
  call('ZREM', queue_key(fn, 'scheduled'), number)
  for i = 2, 4 do
    call('LREM', queue_key(fn, LEVELS[i]), 0, number)
  end
end

-- The protocol's steps on completing a job, in its order; and what is ours lives as long as the job's hash.
local function finish(fn, number, status, output, id)
  local job, lock = job_key(fn, number), 'lock:' .. fn .. ':' .. number
  call('HSET', job, 'status', status, 'output', output)
  call('EXPIRE', job, KEEP_JOB)
  call('PUBLISH', 'channel:' .. fn, 'finish:' .. number)
  call('LPUSH', lock, 'OK')
  call('EXPIRE', lock, KEEP_LOCK)
  call('EXPIRE', record_key(fn, number), KEEP_JOB)
  if id then
    call('EXPIRE', id_key(id), KEEP_JOB)
  end
end

-- The level that a priority stands for.
local function level_of(record)
  if record.level and record.level ~= 'scheduled' then
    return record.level
  end
  local priority = tonumber(record.priority or 0)
  return priority > 0 and 'high' or priority < 0 and 'low' or 'normal'
end
