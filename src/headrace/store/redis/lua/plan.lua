-- What a script is going to write. Transitions only read, and put their intentions here; `commit` checks what has not
-- been checked, and writes: the only place where anything is written to the structures of jobs.
--@include job stats wait checks

plan = {
  jobs = {},      -- id -> the job as it will be; false: removed
  changed = {},   -- the ids of these, once each
  removed = {},   -- ids of jobs whose records are to be removed, and nothing else
  enter = {},     -- queue -> list of score, member
  leave = {},     -- queue -> list of members
  heads = {},     -- queue -> how many are taken from the head of the line
  rows = {},      -- queue -> and how many from the head of the row
  due_in = {}, due_out = {}, -- queue -> list of score, member; list of members
  promoted = { number = 0, heads = {} }, -- queues of which some jobs fall due -> when the next one does, or false
  ended_heads = {}, -- state -> how many of the oldest leave
  held_in = {}, held_out = {}, -- key of a set -> ids
  sorted_in = {}, sorted_out = {}, -- key of a sorted set -> list of score, member; list of members
  lists = {},     -- key of a list -> {drop = how many of its head, without = values of which the last is to go, push = values, keep = how many of its end}
  fields = {},    -- key of a hash -> field -> value, or false: removed
  large = {},     -- field of LARGE -> value, or false: removed
  more = {},      -- id -> what `keep_more` keeps about a job, or false: removed
  index = {},     -- name of a key -> id -> arrival (in `expiring`: when it expires), or false: removed
  holes = {},     -- block of arrivals -> how many of its jobs go
  arrivals = nil, -- the last arrival number, if jobs come
  schedules = {}, -- name -> a schedule as it will be, or false: removed
  unique_in = {}, unique_out = {},
  gone = {},      -- whole keys to remove
  lanes_changed = {}, -- how jobs that come in change what their lanes go by: id, words, ...
  news = {},      -- queue -> how many sleepers to wake
  urgent = {},    -- queue -> the highest priority above 0 of what enters its line
  ended = {},     -- ids of jobs that have come to an end
  tell = {},      -- sessions to wake
  look_again = false, -- a bound was reached: the session should ask again
  heads_taken = {}, -- whether it is spare -> see `taken_heads`
  skipped = 0,    -- how many entries of rows were met that stand for no job
  fresh = {},     -- members of lines and of what is due, and ids of ended jobs, that this plan has put there
  earliest = nil, -- due time of the earliest job that becomes scheduled
}

-- The ways in and out that only some jobs take, and what is kept in order for them: in files of these names.
local lanes, relations, sorted = on_demand(), on_demand(), on_demand()
local schedules, culprits, links = on_demand(), on_demand(), on_demand()
local expiring, barring = on_demand(), on_demand()

local function change(job)
  if plan.jobs[job.id] ~= job then
    if plan.jobs[job.id] == nil then
      plan.changed[#plan.changed + 1] = job.id
    end
    plan.jobs[job.id] = job
  end
end

-- `queue` and `arrival`: what the caller knows of it, should it be damaged.
local function find_job(id, queue, arrival)
  local job = plan.jobs[id]
  if job ~= nil then
    return job
  end
  job = seen[id]
  if job == nil then
    if raw[id] == nil then
      load_many({ id })
    end
    job = raw[id] and parse(id, raw[id], queue, arrival)
    seen[id] = job
  end
  return job
end

-- A field of a hash; false: removed.
local function set_field(key, field, value)
  plan.fields[key] = plan.fields[key] or {}
  plan.fields[key][field] = value
end

-- Into one of the indexes that are in order of arrival (`tracked`, `state:<state>`, `tag:<tag>`, `group:<group>`, `schedule:<name>`), or out of it.
local function index(name, job, inside)
  local members = plan.index[name]
  if not members then
    members = {}
    plan.index[name] = members
  end
  members[job.id] = inside and job.arrival
end

local function last_arrival()
  return tonumber(call('HGET', META, 'jobs') or 0) or fail('CORRUPT', META .. ' has no number in field jobs')
end

-- Some that came with the numbers of a block go.
local function leave_block(block, number)
  plan.holes[block] = (plan.holes[block] or 0) + number
end

local function remember(job, at, what, detail, worker, account)
  job.flags = with(job.flags, HISTORY)
  local key = PREFIX .. 'history:' .. job.id
  local list = plan.lists[key] or { push = {}, keep = setting('max-job-history') }
  plan.lists[key] = list
  list.push[#list.push + 1] = pack('>dHc0Ic0Hc0', at, #what, what, #detail, detail, #worker, worker) .. (account or '')
end

-- What was written last into a job's history; '' if nothing was. What was added from outside while no worker had the job does not
-- count: the line before it does.
local function last_line(job)
  local key = PREFIX .. 'history:' .. job.id
  local lines, last, size = plan.lists[key] and plan.lists[key].push or {}, -1, 1
  while true do
    for i = #lines, 1, -1 do
      local what, _, worker = unpack_from('>Hc0Ic0Hc0', lines[i], 9)
      if what ~= 'log' or worker ~= '' then
        return what
      end
    end
    lines = band(job.flags, HISTORY) ~= 0 and call('LRANGE', key, last - size + 1, last) or {}
    if not lines[1] then
      return ''
    end
    last, size = last - size, 100
  end
end

local function session_of(number)
  return call('ZRANGEBYSCORE', SESSIONS, number, number, 'LIMIT', 0, 1)[1]
end

local function task_of(job)
  local good, _, task = pcall(unpack_from, '>Hc0Hc0', job.put)
  if not good then
    fail_damaged(job.id, job.queue, job.arrival)
  end
  return task
end

local function key_of(job)
  if band(job.flags, HAS_KEY) == 0 then
    return nil
  end
  local good, key = pcall(function()
    local _, _, at = unpack_from('>Hc0Hc0', job.put)
    if band(job.flags, HAS_OPTIONS) ~= 0 then
      _, at = unpack_from('>Ic0', job.put, at)
    end
    return (unpack_from('>Hc0', job.put, at))
  end)
  if not good then
    fail_damaged(job.id, job.queue, job.arrival)
  end
  return key
end

-- The holder of a unique key, and until when it has it at least; a plan may have changed that.
local unique_seen = {}

local function holder_of(key)
  if unique_seen[key] == nil then
    local found = call('HGET', UNIQUE, key)
    if found and #found < 8 then
      fail('CORRUPT', UNIQUE .. ' has no job in field ' .. key)
    end
    unique_seen[key] = found and { id = found:sub(9), till = unpack_from('>d', found) } or false
  end
  return unique_seen[key]
end

-- What only some jobs have, as a table: kept in {ns}:more as msgpack, and MORE in the flags says that it is there.
--
--   after      how many jobs it comes after            if_failed  'wait', 'fail' (if it is not there) or 'run'
--   lane       {key, limit, rate, per, sequence}       tags       a list
--   tracked    true                                    schedule, tick
--   expires    {at} or {after}: a moment, or how long after it is due, by which it must have started (see expiry.lua)
--   later      true: it is blocked, and waits for its time as well: it was not due when that was last worked out
--   barred     its task: it waits because that is blocked (see blocks.lua)
--   delay      how long it is put off when the last job that it waits for has come to an end (none: its due time stays)
--   precedes   a number: others wait for it (see relations.lua)
--   followed   true: others come after it              resumed    true: it has waited for children, and `after` is those
--   start_within  its lane has a rate: how many milliseconds its last worker had, from its take on, to start it
--   joining    the batch whose next parts bring more jobs that it comes after (see put.lua)
--   nonce      of the put that brought it in: its id was chosen by its caller
--   linking    true: it has not been linked with all that it comes after (see links.lua)
--
-- Which jobs it comes after is in {ns}:after, H id each: they may be thousands, and are read only when they are asked for.
local MORE_KEY, AFTER = PREFIX .. 'more', PREFIX .. 'after'
local more_of, keep_more, packed_more, has_lane

do -- only these are names outside: a script may have 200

local more_seen, more_read = {}, {}

-- As bytes, of a job and of all that have been loaded with it, or since the last time.
local function read_more(id)
  local ids = {}
  for _, list in ipairs(loads) do
    for _, other in ipairs(list) do
      ids[#ids + 1] = raw[other] and (raw[other]:byte(2) or 0) >= MORE / 256 and other or nil
    end
  end
  loads = {}
  for i, packed in ipairs(read_many('HMGET', MORE_KEY, ids)) do
    more_read[ids[i]] = packed
  end
  return more_read[id] or call('HGET', MORE_KEY, id)
end

function more_of(job)
  if band(job.flags, MORE) == 0 then
    return {}
  end
  local more = plan.more[job.id] or more_seen[job.id]
  if not more then
    local packed = more_read[job.id] or read_more(job.id)
    local good, found = pcall(cmsgpack.unpack, packed or '')
    if not good or type(found) ~= 'table' then
      fail_damaged(job.id, job.queue, job.arrival)
    end
    more = found
    more_seen[job.id] = more
  end
  return more
end

-- Keep what a job has of this, or that it has nothing of it any more.
function keep_more(job, more)
  if next(more) == nil then
    job.flags = without(job.flags, MORE)
    plan.more[job.id] = false
  else
    job.flags = with(job.flags, MORE)
    plan.more[job.id] = more
  end
end

-- As bytes, as it is or will be.
function packed_more(id)
  local more = plan.more[id]
  return more and cmsgpack.pack(more) or more_read[id] or call('HGET', MORE_KEY, id)
end

function has_lane(job)
  local lane = band(job.flags, MORE) ~= 0 and more_of(job).lane
  return type(lane) == 'table' and type(lane.key) == 'string'
end

end

-- An event of a job, as it is now, for subscribers, if there are any. That of a removal is noted before it.
local function happened(job, what, detail, worker)
  if has_subscribers() then
    happened_to(job.id, job.put, 1, what, detail or '', worker or '', more_of(job).tracked)
  end
end
