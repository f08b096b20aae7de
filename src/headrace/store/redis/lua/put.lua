-- put: insert a batch of jobs, all or nothing.
--
-- ARGV[2]  the batch: for each job
--          H id, H queue, B when (0 now, 1 at, 2 after), d at or after (milliseconds), i priority, H max_crashes, H flags,
--          I `put` as in the record; if LARGE_BODY: I body;
--          if UNIQUE: H key, d unique for (milliseconds; -1: not), B replace;
--          if MORE: I msgpack, see more.lua
-- ARGV[3]  for each pair that needs a worker: H queue, H task
-- Answers  {now, clash, ...}: per job the id of the job that stands in its way, or '' when it is there now
-- Fails    NOWORKERS, REFUSED, before anything is written
--@include prelude job plan more sorted lanes outcome relations session settings stats wake patterns queues commit

local function roll_call()
  local at, wanted = 1, ARGV[3] or ''
  while at <= #wanted do
    local queue, task
    queue, task, at = unpack_from('>Hc0Hc0', wanted, at)
    local present = false
    for _, id in ipairs(call('ZRANGE', SESSIONS, 0, 9999)) do
      present = queues.is_served_by(id, queue, task)
      if present then
        break
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
  return id, queue, due, priority, max_crashes, flags, put, body, key, unique_for, replace, more, when ~= 1 and time or nil
end

-- A lane with jobs is a sequence or not, and stays so.
local function check_lanes(ids)
  at = 1
  for _, id in ipairs(ids) do
    local _, queue, _, _, _, _, _, _, _, _, _, more = next_job()
    local lane = more and not raw[id] and cmsgpack.unpack(more).lane
    if lane and lanes.clashes(queue, lane) then
      fail('REFUSED', "Lane '" .. lane.key .. "' of queue '" .. queue .. "' is " .. (lane.sequence and 'not ' or '')
        .. "a sequence: it can't become " .. (lane.sequence and 'one' or 'something else')
        .. ' while it has unfinished jobs. Use another key.')
    end
  end
end

local ids, special = {}, false
while at <= #batch do
  local id, _, _, _, _, flags = next_job()
  ids[#ids + 1] = id
  special = special or flags >= MORE
end

roll_call()
local meta = call('HMGET', META, 'format', 'jobs')
if meta[1] and meta[1] ~= '1' then
  fail('NEWER', PREFIX .. ' was written in format ' .. meta[1])
end
local arrival = tonumber(meta[2] or 0) or fail('CORRUPT', META .. ' has no number in field jobs')
load_many(ids)
if special then
  check_lanes(ids)
end
at = 1

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
  if somebody_listens() then
    happened_to(id, put, 1, 'created', '', '')
  end
end

-- What only some jobs have; the answer is why it has to fail at once, or nil.
local function prepare(job)
  local more, reason = cmsgpack.unpack(job.more), nil
  keep_more(job, more)
  for _, tag in ipairs(more.tags or {}) do
    index('tag:' .. tag, job, true)
  end
  lanes.join(job)
  lanes.define(job)
  if more.after then
    reason = relations.begin(job, more.after, more.if_failed or 'wait')
    more.delay = relations.unmet_of(job.id).number > 0 and job.delay or nil
  end
  return reason
end

local function insert(job)
  arrival = arrival + 1
  job.arrival = arrival
  local reason = job.more and prepare(job)
  happened(job, 'created')
  if reason then
    job.state = BLOCKED
    relations.fail(job, reason)
  else
    wait_in_line(job)
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
    happened(held, 'deleted', 'replaced')
    remove(held)
    same = find_job(job.id)
  end
  if same then
    if same.state < DONE then
      return same.id
    end
    happened(same, 'deleted', 'replaced')
    remove(same)
  end
  return insert(job)
end

local answer = { string.format('%.0f', now) }
for i = 1, #ids do
  local id, queue, due, priority, max_crashes, flags, put, body, key, unique_for, replace, more, delay = next_job()
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
      delay = delay,
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

local worked = work_off()
if plan.changed[1] or plan.records[1] or worked then
  -- The first write needs memory: a full server refuses it, and with it all the others.
  commit(function()
    call('HSET', META, 'format', '1', 'jobs', string.format('%.0f', arrival))
  end)
end
return answer
