-- A batch of jobs, as `put` gets it (`batch`, from `at` on): what to refuse of it, and how its jobs come in.
local AT_ONCE = 1000

-- `wanted`: for each pair that needs a worker H queue, H task.
local function roll_call(wanted)
  local at = 1
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

-- The ids of the jobs, each of which has been checked unless it was when it was sent.
local function read_batch(is_checked)
  local good, problem = pcall(function()
    while at <= #batch do
      local id, queue, _, _, _, flags, put, _, key, unique_for, _, more = next_job()
      if not is_checked then
        check_job(id, queue, flags, put, key, unique_for, more)
      end
      ids[#ids + 1] = id
      special = special or flags >= MORE
    end
  end)
  if not good then
    checks.unreadable('The batch', problem)
  elseif #ids > AT_ONCE then
    checks.refuse('One call takes 1,000 jobs at most: nobody else is served meanwhile.')
  end
  load_many(ids)
end

local lines, lengths = {}, {}

-- A job that nothing is to be known about but its place in line.
local function insert_plain(id, queue, due, priority, max_crashes, flags, put)
  arrive(id)
  rewrite(id, pack(HEAD_FORMAT, READY, flags, 0, 0, 0, due, put_at, arrival, priority, max_crashes, #put) .. put)
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

-- All of them, in order: for each the id of the job that stands in its way, or '' if it is there now.
local function insert_all()
  local answer = {}
  at = 1
  for i = 1, #ids do
    local id, queue, due, priority, max_crashes, flags, put, body, key, unique_for, replace, more, delay, data = next_job()
    if not key and not body and not more and not data and due <= now and plan.jobs[id] == nil then
      if not raw[id] then
        insert_plain(id, queue, due, priority, max_crashes, flags, put)
      end
      answer[i] = ''
    else
      local job =
        new_job(id, queue, due, priority, max_crashes, flags, put, body, key, unique_for, replace, more, delay, data)
      if find_job(id) then
        answer[i] = '' -- a repeat, whatever has become of the job or its key
      elseif key then
        answer[i] = put_unique(job)
      else
        answer[i] = insert(job)
      end
    end
  end
  for queue, length in pairs(lengths) do
    count(queue, READY, length)
    plan.news[queue] = (plan.news[queue] or 0) + length
  end
  return answer
end
