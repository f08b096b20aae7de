-- Putting: jobs that come in. `next_job` reads one from a request (`batch`, at `at`), `insert` gives it its place.
--@include arrivals admission queues

local batch, at = '', 1

-- When they were put.
local put_at = now

-- The next job of the batch. What most have in common comes as plain values: a table for each would be half of the work.
local function next_job()
  local id, queue, when, time, priority, max_crashes, flags, put
  id, queue, when, time, priority, max_crashes, flags, put, at = unpack_from('>Hc0Hc0BdiHHIc0', batch, at)
  local body, key, unique_for, replace, more, data
  if flags > 0 then
    if without(flags, HAS_KEY + HAS_OPTIONS + LARGE_BODY + HAS_DATA + MORE) ~= 0 then
      checks.refuse('Job ' .. id .. ' has flags that a put cannot set (' .. flags .. ').')
    end
    if band(flags, LARGE_BODY) ~= 0 then
      body, at = unpack_from('>Ic0', batch, at)
    end
    if band(flags, HAS_KEY) ~= 0 then
      key, unique_for, replace, at = unpack_from('>Hc0dB', batch, at)
    end
    if band(flags, MORE) ~= 0 then
      more, at = unpack_from('>Ic0', batch, at)
    end
    if band(flags, HAS_DATA) ~= 0 then
      data, at = unpack_from('>Ic0', batch, at)
    end
  end
  local due = when == 0 and put_at or when == 1 and time or put_at + time
  if when > 2 or not (due >= 0 and due <= LATEST and time >= -LATEST and time <= LATEST) then
    checks.refuse(string.format('Job %s has an impossible time (%.0f: %.14g).', id, when, time))
  end
  return id, queue, due, priority, max_crashes, flags, put, body, key, unique_for, replace, more,
    when ~= 1 and time or nil, data
end

-- Names that come again are looked at once, and those that are plain ASCII take one look.
local sound = {}

local function check_name(name, what, id)
  if not sound[name] then
    if not name:find('^[^\128-\255]*$') then
      checks.text(name, what, id)
    end
    sound[name] = true
  end
end

-- Refuses a job that others could not read, or that is not the same inside and outside.
local function check_job(id, queue, flags, put, key, unique_for, more)
  if not id:find('^%w*$') then
    checks.text(id, 'The id of a job')
  end
  local named, task, rest = unpack_from('>Hc0Hc0', put)
  check_name(queue, 'The queue of job ', id)
  check_name(task, 'The task of job ', id)
  if named ~= queue then
    checks.refuse('Job ' .. id .. ' names one queue outside `put` and another in it.')
  end
  if flags > 0 then
    if band(flags, HAS_OPTIONS) ~= 0 then
      local _
      _, rest = unpack_from('>Ic0', put, rest)
    end
    if key then
      checks.text(key, 'The unique key of job ', id)
      checks.duration(unique_for, 'How long the key is taken of job ', id)
      if unpack_from('>Hc0', put, rest) ~= key then
        checks.refuse('Job ' .. id .. ' has one unique key outside `put` and another in it.')
      end
    end
    if more then
      checks.more(more, id)
    end
  end
end

-- What `next_job` has read, as a table.
local function new_job(id, queue, due, priority, max_crashes, flags, put, body, key, unique_for, replace, more, delay, data)
  return {
    id = id, queue = queue, flags = without(flags, HAS_DATA), token = 0, attempts = 0, crashes = 0, created = put_at, due = due,
    priority = priority, max_crashes = max_crashes, session = 0, request = 0, started = 0, finished = 0, put = put,
    story = '', body = body, key = key, unique_for = unique_for, replace = replace, more = more, delay = delay, data = data,
  }
end

local arrival
local arrived = {} -- ids of the jobs that have come, in order

-- The next number, for this job.
local function arrive(id)
  arrival = arrival + 1
  arrived[#arrived + 1] = id
  return arrival
end

local function count_arrivals()
  local meta = call('HMGET', META, 'format', 'jobs')
  check_format(meta[1])
  arrival = tonumber(meta[2] or 0) or fail('CORRUPT', META .. ' has no number in field jobs')
end

-- Checks; answers with the first write: it needs memory, so a full server refuses it, and with it all the others.
local function keep_arrivals()
  local blocks = arriving(arrival - #arrived + 1, arrived, #arrived)
  plan.arrivals = arrival
  return function()
    arrive_all(blocks)
    call('HSET', META, 'format', FORMAT, 'jobs', string.format('%.0f', arrival))
  end
end

-- What only some jobs have. Answers why it has to fail at once, or nil; and how it has changed its lane, or nil.
local function prepare(job)
  local more, reason = cmsgpack.unpack(job.more), nil
  keep_more(job, more)
  for _, tag in ipairs(more.tags or {}) do
    index('tag:' .. tag, job, true)
  end
  if more.schedule then
    index('schedule:' .. more.schedule, job, true)
  end
  if more.lane and lanes.clashes(job.queue, more.lane) then
    more.lane.sequence = not more.lane.sequence or nil -- since its batch was staged: the lane stays what it is
  end
  lanes.join(job)
  local changed = lanes.define(job)
  if more.after then
    local after = more.after
    relations.keep_parents(job, more, relations.packed(after), #after)
    reason = relations.begin(job, after, more.if_failed or 'fail')
    more.joining = more.joining and ARGV[2] -- the batch that brings the rest of what it comes after
    more.delay = relations.waits(job) and job.delay or nil
  end
  return reason, changed
end

local function insert(job)
  job.arrival = arrive(job.id)
  local reason, changed
  if job.more then
    reason, changed = prepare(job)
  end
  if job.data then
    local story = story_of(job)
    keep_value(job, story, 'data', job.data)
    tell(job, story)
  end
  happened(job, 'created')
  if changed then
    plan.lanes_changed[#plan.lanes_changed + 1] = job.id
    plan.lanes_changed[#plan.lanes_changed + 1] = changed
    happened(job, 'set', 'lane ' .. more_of(job).lane.key .. ': ' .. changed)
  end
  if reason then
    job.state = BLOCKED
    relations.fail(job, reason)
  else
    wait_in_line(job, job.due <= put_at)
  end
  if job.body then
    plan.large['b:' .. job.id] = job.body
  end
  if job.key then
    local till = job.unique_for < 0 and 0 or put_at + job.unique_for
    unique_seen[job.key] = { id = job.id, till = till }
    plan.unique_in[#plan.unique_in + 1] = job.key
    plan.unique_in[#plan.unique_in + 1] = pack('>d', till) .. job.id
  end
  return ''
end

-- A batch of jobs, as `put` gets it: what to refuse of it, and how its jobs come in.

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
  elseif #ids > PUT_AT_ONCE then
    checks.refuse('One call takes 1,000 jobs at most: the server serves no others meanwhile.')
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
  if has_subscribers() then
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

-- All of them, in order: for each the id of the job that stands in its way, or '' if it is there now. And the nonces of those whose
-- own id another job has, by their places.
local function insert_all()
  local answer, nonces = {}, {}
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
      local there = find_job(id)
      if there then -- a repeat, whatever has become of the job or its key; or another job has the id
        local nonce = more and cmsgpack.unpack(more).nonce
        nonces[i] = nonce and more_of(there).nonce ~= nonce and nonce or nil
        answer[i] = nonces[i] and id or ''
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
  return answer, nonces
end

-- A batch that costs more than one step should: its parts are staged, and nothing of it is there before the last of them. From
-- then on all of it is certain to come, part by part: its client sees to that, or sweeps do.
--
--   {ns}:staged:<batch>  list  the parts that have not come in, as `put` takes them; expires unless all of them are there
--   {ns}:batch:<batch>   hash  at: when it was put; c<job id>[NUL nonce] -> the job that stood in its way. There once all parts are; goes, or
--                              expires if jobs stood in the way, when the last has come in
--   {ns}:arriving        zset  batches of which parts have not come in: score when it was put
local KEPT = 60000

local function stages_of(batch_name)
  local stages = {
    parts = PREFIX .. 'staged:' .. batch_name, about = PREFIX .. 'batch:' .. batch_name, arriving = PREFIX .. 'arriving',
  }
  check_type(stages.parts, 'list')
  check_type(stages.about, 'hash')
  check_type(stages.arriving, 'zset')
  return stages
end

-- A job that comes after more others than one step can see to. The part of a batch that brings it in names some of them, and says
-- `joining` in `more`; further parts bring the rest, and until the last has come in the job waits. Such a part is 'p', H id of the
-- job, B 1 if it is the last, and H id of each job that it comes after; a part with jobs is 'j' and these.
local joining = {}

function joining.read(part)
  local id, last, at = unpack_from('>Hc0B', part, 2)
  return id, last == 1, part:sub(at)
end

function joining.check(part)
  local good, id, _, packed = pcall(joining.read, part)
  local readable, parents = pcall(relations.names_in, good and packed or '')
  if not good or not readable then
    checks.refuse('The part of a batch that says what a job comes after cannot be read.')
  end
  checks.list_of_texts(parents, 'what comes before job ', id)
  checks.number(#parents, 1, 1000, 'How many jobs one part says to come before job ', id)
end

-- The job may have been there before its batch, or have gone since.
function joining.join(part, batch)
  local id, is_last, packed = joining.read(part)
  local job = find_job(id)
  local more = job and more_of(job)
  if not job or more.joining ~= batch then
    return
  end
  local parents = relations.names_in(packed)
  relations.keep_parents(job, more, (call('HGET', AFTER, id) or '') .. packed, (more.after or 0) + #parents)
  more.joining = not is_last and batch or nil
  local reason = links.look_at(job, 'm', parents)
  more.delay = relations.waits(job) and more.delay or nil -- or none of those has been waited for
  links.go_on(job, more, reason)
end
