-- put: insert a batch of jobs, all or nothing.
--
-- ARGV[2]  the batch: for each job
--          H id, H queue, B when (0 now, 1 at, 2 after), d at or after (milliseconds), i priority, H max_crashes, H flags,
--          I `put` as in the record; if LARGE_BODY: I body;
--          if UNIQUE: H key, d unique for (milliseconds; -1: not), B replace;
--          if MORE: I msgpack, see more.lua
-- ARGV[3]  for each pair that needs a worker: H queue, H task
-- Answers  {now, clash, ...}: per job the id of the job that stands in its way, or '' when it is there now
-- Fails    NOWORKERS, before anything is written
--@include prelude job plan more session wake commit

local function roll_call()
  local at, wanted = 1, ARGV[3] or ''
  while at <= #wanted do
    local queue, task
    queue, task, at = unpack_from('>Hc0Hc0', wanted, at)
    local present = false
    for _, id in ipairs(call('ZRANGE', SESSIONS, 0, 9999)) do
      local found = call('HMGET', session_key(id), 'queue:' .. queue, 'task:' .. task)
      if found[1] and found[2] then
        local session = read_session(id)
        if session and not session.closed and not expired(session) then
          present = true
          break
        end
      end
    end
    if not present then
      fail('NOWORKERS', "No live worker listens to queue '" .. queue .. "' and knows task '" .. task .. "'. Nothing was enqueued.")
    end
  end
end

local batch, at = ARGV[2], 1

-- The next job of the batch. What most have in common comes as plain values: a table for each would be half of the work.
local function next_job()
  local id, queue, when, time, priority, max_crashes, flags, put
  id, queue, when, time, priority, max_crashes, flags, put, at = unpack_from('>Hc0Hc0BdiHHIc0', batch, at)
  local body, key, unique_for, replace, more
  if flags > 0 then
    if band(flags, LARGE_BODY) ~= 0 then
      body, at = unpack_from('>Ic0', batch, at)
    end
    if band(flags, HAS_KEY) ~= 0 then
      key, unique_for, replace, at = unpack_from('>Hc0dB', batch, at)
    end
    if band(flags, MORE) ~= 0 then
      more, at = unpack_from('>Ic0', batch, at)
    end
  end
  local due = when == 0 and now or when == 1 and time or now + time
  return id, queue, due, priority, max_crashes, flags, put, body, key, unique_for, replace, more
end

local ids = {}
while at <= #batch do
  ids[#ids + 1] = next_job()
end
at = 1

roll_call()
local meta = call('HMGET', META, 'format', 'jobs')
if meta[1] and meta[1] ~= '1' then
  fail('NEWER', PREFIX .. ' was written in format ' .. meta[1])
end
local arrival = tonumber(meta[2] or 0) or fail('CORRUPT', META .. ' has no number in field jobs')
load_many(ids)

local lines, lengths = {}, {}

-- A job that nothing is to be known about but its place in line.
local function insert_plain(id, queue, due, priority, max_crashes, flags, put)
  arrival = arrival + 1
  rewrite(id, pack(HEAD_FORMAT, READY, flags, 0, 0, 0, due, now, arrival, priority, max_crashes, #put) .. put)
  local line = lines[queue]
  if not line then
    line = plan.enter[queue] or {}
    lines[queue], plan.enter[queue], lengths[queue] = line, line, 0
  end
  line[#line + 1] = -priority
  line[#line + 1] = pack('>I6I6', due, arrival) .. id
  lengths[queue] = lengths[queue] + 1
end

local function insert(job)
  arrival = arrival + 1
  job.arrival = arrival
  wait_in_line(job)
  if job.more then
    local more = cmsgpack.unpack(job.more)
    keep_more(job, more)
    for _, tag in ipairs(more.tags or {}) do
      index('tag:' .. tag, job, true)
    end
  end
  if job.body then
    plan.large['b:' .. job.id] = job.body
  end
  if job.key then
    local till = job.unique_for < 0 and 0 or now + job.unique_for
    unique_seen[job.key] = { id = job.id, till = till }
    plan.unique_in[#plan.unique_in + 1] = job.key
    plan.unique_in[#plan.unique_in + 1] = pack('>d', till) .. job.id
  end
  return ''
end

local function put_unique(job)
  local holder = holder_of(job.key)
  local held = holder and find_job(holder.id)
  local same = find_job(job.id)
  if held and (held.state < DONE or holder.till > now) then
    if job.replace == 0 or held.state == RUNNING or held.state >= DONE then
      return held.id
    end
    if same and same.id ~= held.id and same.state < DONE then
      return same.id
    end
    remove(held)
    same = find_job(job.id)
  end
  if same then
    if same.state < DONE then
      return same.id
    end
    remove(same)
  end
  return insert(job)
end

local answer = { string.format('%.0f', now) }
for i = 1, #ids do
  local id, queue, due, priority, max_crashes, flags, put, body, key, unique_for, replace, more = next_job()
  if not key and not body and not more and due <= now and plan.jobs[id] == nil then
    if not raw[id] then
      insert_plain(id, queue, due, priority, max_crashes, flags, put)
    end
    answer[i + 1] = ''
  else
    local job = {
      id = id, queue = queue, flags = flags, token = 0, attempts = 0, crashes = 0, created = now, due = due,
      priority = priority, max_crashes = max_crashes, session = 0, request = 0, started = 0, finished = 0, put = put,
      told = '', body = body, key = key, unique_for = unique_for, replace = replace, more = more,
    }
    if key then
      answer[i + 1] = put_unique(job)
    elseif find_job(id) then
      answer[i + 1] = ''
    else
      answer[i + 1] = insert(job)
    end
  end
end
for queue, length in pairs(lengths) do
  count(queue, READY, length)
  plan.news[queue] = (plan.news[queue] or 0) + length
end

if plan.changed[1] or plan.records[1] then
  -- The first write needs memory: a full server refuses it, and with it all the others.
  commit(function()
    call('HSET', META, 'format', '1', 'jobs', string.format('%.0f', arrival))
  end)
end
return answer
