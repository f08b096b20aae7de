-- Jobs that come in: `next_job` reads one from a request (`batch`, at `at`), `insert` gives it its place.

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
    if name:find('[\128-\255]') then
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
    told = '', body = body, key = key, unique_for = unique_for, replace = replace, more = more, delay = delay, data = data,
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
  local blocks = arriving(arrival - #arrived + 1, arrived)
  plan.arrivals = arrival
  return function()
    arrive_all(blocks, arrived)
    call('HSET', META, 'format', '2', 'jobs', string.format('%.0f', arrival))
  end
end

-- What only some jobs have; the answer is why it has to fail at once, or nil.
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
  lanes.define(job)
  if more.after then
    local after = more.after
    relations.keep_parents(job, more, after)
    reason = relations.begin(job, after, more.if_failed or 'fail')
    more.joining = more.joining and ARGV[2] -- the batch that brings the rest of what it comes after
    more.delay = relations.waits(job) and job.delay or nil
  end
  return reason
end

local function insert(job)
  job.arrival = arrive(job.id)
  local reason = job.more and prepare(job)
  if job.data then
    local story = story_of(job)
    keep_data(job, story, job.data)
    tell(job, story)
  end
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
    local till = job.unique_for < 0 and 0 or put_at + job.unique_for
    unique_seen[job.key] = { id = job.id, till = till }
    plan.unique_in[#plan.unique_in + 1] = job.key
    plan.unique_in[#plan.unique_in + 1] = pack('>d', till) .. job.id
  end
  return ''
end
