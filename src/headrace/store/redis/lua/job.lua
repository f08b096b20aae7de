-- A job's record (layout.py has its parts as data): fixed numbers first, then what was put, then what became of it. Big-endian, no padding.
--
--   head   B state, H flags, I token, I attempts, H crashes, I6 due, I6 created, I6 arrival, i priority,
--          H max_crashes, I length of `put`
--   run    if flags has RUN: I session number, I6 request number, I6 started, I6 finished (0: not)
--   put    H queue, H task, if OPTIONS: I options, if UNIQUE: H unique key, and the rest is the body (each with its
--          length before it, but for the body)
--   story  if flags has STORY: B which of its values are in `large` (1 data, 2 result, 4 error; 8: the result was
--          dropped; 16: it runs, and its data was updated from outside), H worker, H group,
--          I data, I result, I error, d progress, d of total, I6 deferred since
--@include prelude

local STORY_SIZE = 39
local PLACES, FAILED_PLACES, RUN_LINES, RUNS_KEPT = 250, 150, 1000, 50

-- From bytes to a table. What is not needed to decide stays bytes: `put`, and `story` until `story_of` is called.
-- `queue` and `arrival` are what the caller knows of it, should it be damaged.
local function parse(id, record, queue, arrived)
  if #record < HEAD_SIZE then
    fail_damaged(id, queue, arrived)
  end
  local state, flags, token, attempts, crashes, due, created, arrival, priority, max_crashes, length, at =
    unpack_from(HEAD_FORMAT, record)
  local session, request, started, finished = 0, 0, 0, 0
  local ran = band(flags, RUN) ~= 0
  local story = band(flags, STORY) ~= 0 and STORY_SIZE or 0
  if #record < at - 1 + (ran and RUN_SIZE or 0) + length + story or length < 4 or state > CANCELLED then
    fail_damaged(id, queue, arrived)
  end
  if ran then
    session, request, started, finished, at = unpack_from(RUN_FORMAT, record, at)
  end
  local size = record:byte(at) * 256 + record:byte(at + 1)
  if size + 4 > length then
    fail_damaged(id, queue, arrived)
  end
  return {
    id = id, state = state, flags = flags, token = token, attempts = attempts, crashes = crashes, due = due,
    created = created, arrival = arrival, priority = priority, max_crashes = max_crashes,
    session = session, request = request, started = started, finished = finished,
    queue = record:sub(at + 2, at + 1 + size), put = record:sub(at, at + length - 1), story = record:sub(at + length),
  }
end

local function serialize(job)
  local head = pack(
    HEAD_FORMAT, job.state, job.flags, job.token, job.attempts, job.crashes, job.due, job.created, job.arrival,
    job.priority, job.max_crashes, #job.put)
  if band(job.flags, RUN) ~= 0 then
    return head .. pack(RUN_FORMAT, job.session, job.request, job.started, job.finished) .. job.put .. job.story
  end
  return head .. job.put .. job.story
end

-- What became of it so far, as a table; `tell` puts it back. A record whose story is cut short has none.
local function story_of(job)
  if band(job.flags, STORY) ~= 0 then
    local good, large, worker, group, data, result, error_, progress, total, deferred =
      pcall(unpack_from, STORY_FORMAT, job.story)
    if not good then
      fail_damaged(job.id, job.queue, job.arrival)
    end
    return {
      large = large, worker = worker, group = group, data = data, result = result, error = error_,
      progress = progress, total = total, deferred = deferred,
    }
  end
  return { large = 0, worker = '', group = '', data = '', result = '', error = '', progress = 0, total = 0, deferred = 0 }
end

-- Whether a record stands for one that was damaged (see scripts/set_aside.lua): of a task without a name, in the group of these.
local function is_set_aside(job)
  return job.state == FAILED and job.put:sub(#job.queue + 3, #job.queue + 4) == '\0\0' and story_of(job).group == 'damaged'
end

local function tell(job, story)
  job.flags = with(job.flags, STORY)
  job.story = pack(
    STORY_FORMAT, story.large, #story.worker, story.worker, #story.group, story.group, #story.data, story.data,
    #story.result, story.result, #story.error, story.error, story.progress, story.total, story.deferred)
end

local function without(flags, bits)
  return band(flags, bnot(bits))
end

-- The plan of what to write is in plan.lua, for scripts that have one.
local plan

-- Records by ids as they are, or as a plan will have them; false where there is no job. Parsed only when need be.
local raw = {}
local seen = {}
local loads = {} -- lists of the ids of these, as they were loaded, until `more_of` goes through them

local function load_many(ids)
  local missing, n = {}, 0
  for i = 1, #ids do
    local id = ids[i]
    if raw[id] == nil then
      raw[id] = false
      n = n + 1
      missing[n] = id
    end
  end
  loads[#loads + 1] = missing
  local records = read_many('HMGET', JOB, missing)
  for i = 1, n do
    raw[missing[i]] = records[i]
  end
end

-- Records that were changed as bytes: id, record, ...
local rewritten = {}

local function rewrite(id, record)
  local n = #rewritten
  rewritten[n + 1], rewritten[n + 2] = id, record
  raw[id] = record
  seen[id] = nil
end

-- Spare leases that have been started are no longer spare. They are named by arrival numbers: d each.
local function mark_started(session, started)
  if started == '' then
    return
  end
  local named = {}
  for at = 1, #started, 8 do
    named[unpack_from('>d', started, at)] = true
  end
  local ids = call('SMEMBERS', session.held)
  types[session.held] = 'set' -- or that would have failed
  load_many(ids)
  for _, id in ipairs(ids) do
    local record = raw[id]
    if record and #record >= HEAD_SIZE + RUN_SIZE then
      local state, flags, arrival, holder = unpack_from('>BHxxxxxxxxxxxxxxxxxxxxxxI6xxxxxxxxxxI', record)
      if state == RUNNING and named[arrival] and holder == session.number then
        rewrite(id, pack('>BH', state, without(flags, SPARE)) .. record:sub(4))
      end
    end
  end
end

-- Fields of META -> by how much they change: how many jobs of a state a queue has, and what ended jobs take.
local counts = {}

local function count(queue, state, by)
  local field = state .. queue
  counts[field] = (counts[field] or 0) + by
end

-- Fields of META as they are, read once; false where there is no such field.
local meta_seen = {}

local function read_meta(fields)
  local missing = {}
  for _, field in ipairs(fields) do
    if meta_seen[field] == nil then
      meta_seen[field] = false
      missing[#missing + 1] = field
    end
  end
  for i, value in ipairs(read_many('HMGET', META, missing)) do
    meta_seen[missing[i]] = value
  end
end

-- The counts as they will be: fields to set, fields to remove. And the queues that get their first ready job, as members of a
-- sorted set, or lose their last.
local function changed_counts()
  local fields, set, zero, filled, emptied = {}, {}, {}, {}, {}
  for field, by in pairs(counts) do
    if by ~= 0 then
      fields[#fields + 1] = field
    end
  end
  read_meta(fields)
  for _, field in ipairs(fields) do
    local before = meta_seen[field]
    local number = before and tonumber(before) or 0
    local after = number + counts[field]
    if after > 0 then
      set[#set + 1] = field
      set[#set + 1] = string.format('%.0f', after)
    elseif before then
      zero[#zero + 1] = field
    end
    local queue = (number > 0) ~= (after > 0) and field:byte() == READY_DIGIT and field:sub(2)
    if queue and after > 0 then
      filled[#filled + 1] = 0
      filled[#filled + 1] = queue
    elseif queue then
      emptied[#emptied + 1] = queue
    end
  end
  return set, zero, filled, emptied
end
