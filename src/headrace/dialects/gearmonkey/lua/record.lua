-- Jobs: finding them, their records beside the protocol's hash, ending them, putting them back in line.
--
-- A record is a head of fixed layout (the fields of HEAD), who held the job last (session, worker), a msgpack map of what only
-- some jobs have, and the number of the last hand-out (ref). In the map: id (ours), task and
-- queue (where they are not the function), options, max (crashes), priority, data, error, group, deferred, cancelling, state
-- (`cancelled`). An ordinary run changes the head and copies the rest as it is. `result` is a letter: how the output was made
-- from the result (n none, t text, b bytes, j as it is), 0 if we have not run it. `arrival`: its place among all that we put.
-- While a job is held its record lives with whoever holds it (see held.lua), so that taking writes nothing here, and settling
-- once. Lua hashes every string that it makes: scripts that see many records copy them in as few and as short pieces as they can.

-- token 1, attempts 5, crashes 7, created 9, due 17, arrival 25, started 33, finished 41, result 49, lengths 50 and 52
local HEAD, HEAD_SIZE, REF = '>I4HHdddddBHH', 53, '>I6'

local function head(token, attempts, crashes, created, due, arrival, started, finished, result, session, worker)
  return struct.pack(HEAD, token, attempts, crashes, created, due, arrival, started, finished, result, #session, #worker)
    .. session .. worker
end

local NEVER = struct.pack(REF, 0)
local NEW = head(0, 0, 0, 0, 0, 0, 0, 0, 0, '', '') .. NEVER

-- A record as a table with all of its fields.
local function parse(blob)
  local token, attempts, crashes, created, due, arrival, started, finished, result, s, w, at = struct.unpack(HEAD, blob)
  local rest = blob:sub(at + s + w, -7)
  local record = rest ~= '' and cmsgpack.unpack(rest) or {}
  record.token, record.attempts, record.crashes, record.created, record.due = token, attempts, crashes, created, due
  record.arrival, record.started, record.finished, record.result = arrival, started, finished, result
  record.ref = struct.unpack(REF, blob, #blob - 5)
  record.session, record.worker = blob:sub(at, at + s - 1), blob:sub(at + s, at + s + w - 1)
  return record
end

local REST = { 'id', 'task', 'queue', 'options', 'max', 'priority', 'data', 'error', 'group', 'deferred', 'cancelling', 'state' }

local function build(record)
  local rest = {}
  for _, name in ipairs(REST) do
    rest[name] = record[name]
  end
  return head(record.token, record.attempts, record.crashes, record.created, record.due, record.arrival, record.started,
    record.finished, record.result, record.session, record.worker) .. (next(rest) and cmsgpack.pack(rest) or '')
    .. struct.pack(REF, record.ref)
end

-- How the rest of a record mostly begins: nothing but an id, of 32 to 255 bytes; its length follows.
local ONLY_ID = '\129\162id\217'

-- The id that we gave to a job, from the map in its record; nil for a peer's.
local function id_in(rest)
  if rest:sub(1, 5) == ONLY_ID and rest:byte(6) == #rest - 6 then
    return rest:sub(7)
  end
  return rest ~= '' and cmsgpack.unpack(rest).id or nil
end

-- Where a job is: by the id we gave it, or FN:ID.
local function locate(id)
  return (call('GET', id_key(id)) or id):match('^(.+):(%d+)$')
end

local function jobs_key(fn)
  return SIDE .. fn .. ':jobs'
end

local function ended_key(fn, number)
  return SIDE .. fn .. ':' .. number:sub(1, -4) .. ':ended'
end

local function read_blob(fn, number)
  return call('HGET', jobs_key(fn), number) or call('HGET', ended_key(fn, number), number) or NEW
end

local function read_record(fn, number)
  return parse(read_blob(fn, number))
end

-- The record of a job that has not ended.
local function write_record(fn, number, record)
  call('HSET', jobs_key(fn), number, build(record))
end

-- The record of a job that has ended: kept at least as long as its hash.
local function write_ended(fn, number, blob)
  local key = ended_key(fn, number)
  call('HSET', key, number, blob)
  call('EXPIRE', key, KEEP_JOB)
  call('HDEL', jobs_key(fn), number)
end

local function forget_record(fn, number)
  call('HDEL', jobs_key(fn), number)
  call('HDEL', ended_key(fn, number), number)
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

local function crashed_text(crashes)
  return 'crashed: ' .. crashes .. (crashes == 1 and ' worker' or ' workers') .. ' died while running this job'
end

-- What the names of a function's jobs, locks, and its channel begin with.
local function names_of(fn)
  return { job = 'job:' .. fn .. ':', lock = 'lock:' .. fn .. ':', channel = 'channel:' .. fn }
end

-- The protocol's steps on completing a job, in its order. False if there is no such job any more: somebody who knows nothing
-- of leases deleted it. `like`: a lock list to be copied with its expiry, which is faster for many.
local function complete(names, number, status, output, like)
  local job, lock = names.job .. number, names.lock .. number
  if call('HSET', job, 'status', status, 'output', output) == 2 then
    call('DEL', job)
    return false
  end
  call('EXPIRE', job, KEEP_JOB)
  call('PUBLISH', names.channel, 'finish:' .. number)
  if not like or call('COPY', like, lock) == 0 then
    call('LPUSH', lock, 'OK')
    call('EXPIRE', lock, KEEP_LOCK)
  end
  return true
end

-- Where a job that has ended is need be known for as long as its hash is kept.
local function expire_id(id)
  if id then
    call('EXPIRE', id_key(id), KEEP_JOB)
  end
end

-- The same with our record.
local function finish(fn, number, status, output, blob)
  local there = complete(names_of(fn), number, status, output)
  if there then
    write_ended(fn, number, blob)
    expire_id(parse(blob).id)
  end
  return there
end

-- The level that a job was taken from, or, if it was scheduled, the one that its priority stands for.
local function level_of(record, level)
  if level and level ~= 'scheduled' then
    return level
  end
  local priority = record.priority or 0
  return priority > 0 and 'high' or priority < 0 and 'low' or 'normal'
end
