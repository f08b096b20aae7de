-- put: insert a batch of jobs, 10,000 at most, all or nothing.
--
-- ARGV[2]  the batch: for each job
--          H id, H queue, B when (0 now, 1 at, 2 after), d at or after (milliseconds), i priority, H max_crashes, H flags,
--          I `put` as in the record; if LARGE_BODY: I body;
--          if UNIQUE: H key, d unique for (milliseconds; -1: not), B replace;
--          if MORE: I msgpack, see more.lua; if HAS_DATA: I data
-- ARGV[3]  for each pair that needs a worker: H queue, H task
-- Answers  {now, clash, ...}: per job the id of the job that stands in its way, or '' when it is there now
-- Fails    NOWORKERS, REFUSED, before anything is written
--@include prelude format job plan more schedules sorted lanes outcome ending culprits relations session settings stats wake patterns queues commit

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

--@include checks insert

-- A lane with jobs is a sequence or not, and stays so.
local function check_lanes(ids)
  at = 1
  local sequences = {}
  for _, id in ipairs(ids) do
    local _, queue, _, _, _, _, _, _, _, _, _, more = next_job()
    local lane = more and not raw[id] and cmsgpack.unpack(more).lane
    local name, sequence = lane and lanes.name(queue, lane.key), lane and lane.sequence or false
    if lane and sequences[name] == nil then
      sequences[name] = sequence
    end
    if lane and (sequences[name] ~= sequence or lanes.clashes(queue, lane)) then
      fail('REFUSED', "Lane '" .. lane.key .. "' of queue '" .. queue .. "' is " .. (lane.sequence and 'not ' or '')
        .. "a sequence: it can't become " .. (lane.sequence and 'one' or 'something else')
        .. ' while it has unfinished jobs. Use another key.')
    end
  end
end

local ids, special = {}, false
local function read_batch()
  while at <= #batch do
    local id, queue, _, _, _, flags, put, _, key, unique_for, _, more = next_job()
    check_job(id, queue, flags, put, key, unique_for, more)
    ids[#ids + 1] = id
    special = special or flags >= MORE
  end
end

local good, problem = pcall(read_batch)
if not good then
  checks.unreadable('The batch', problem)
elseif #ids > 10000 then
  checks.refuse('A batch has 10,000 jobs at most: nobody else is served meanwhile.')
end

roll_call()
count_arrivals()
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

local function put_unique(job)
  local holder = holder_of(job.key)
  local held = holder and find_job(holder.id)
  if held and (held.state < DONE or holder.till > now) then
    if job.replace == 0 or held.state == RUNNING or held.state >= DONE then
      return held.id
    end
    happened(held, 'deleted', 'replaced')
    remove(held)
  end
  return insert(job)
end

local answer = { string.format('%.0f', now) }
for i = 1, #ids do
  local id, queue, due, priority, max_crashes, flags, put, body, key, unique_for, replace, more, delay, data = next_job()
  if not key and not body and not more and not data and due <= now and plan.jobs[id] == nil then
    if not raw[id] then
      insert_plain(id, queue, due, priority, max_crashes, flags, put)
    end
    answer[i + 1] = ''
  else
    local job =
      new_job(id, queue, due, priority, max_crashes, flags, put, body, key, unique_for, replace, more, delay, data)
    if find_job(id) then
      answer[i + 1] = '' -- a repeat, whatever has become of the job or its key
    elseif key then
      answer[i + 1] = put_unique(job)
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
  commit(keep_arrivals)
end
return answer
