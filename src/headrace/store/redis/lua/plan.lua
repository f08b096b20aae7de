-- What a script is going to write. Transitions only read, and put their intentions here; `commit` checks what has not
-- been checked, and writes: the only place where anything is written to the structures of jobs.
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
  ended_in = { [DONE] = {}, [FAILED] = {}, [CANCELLED] = {} },
  ended_out = { [DONE] = {}, [FAILED] = {}, [CANCELLED] = {} },
  ended_heads = {}, -- state -> how many of the oldest leave
  held_in = {}, held_out = {}, -- key of a set -> ids
  sorted_in = {}, sorted_out = {}, -- key of a sorted set -> list of score, member; list of members
  lists = {},     -- key of a list -> {drop = how many of its head, without = values of which the last is to go, push = values, keep = how many of its end}
  fields = {},    -- key of a hash -> field -> value, or false: removed
  large = {},     -- field of LARGE -> value, or false: removed
  more = {},      -- id -> what more.lua keeps about a job, or false: removed
  index = {},     -- name of a key -> id -> arrival, or false: removed
  holes = {},     -- block of arrivals -> how many of its jobs go
  arrivals = nil, -- the last arrival number, if jobs come
  schedules = {}, -- name -> a schedule as it will be, or false: removed
  unique_in = {}, unique_out = {},
  history = {},   -- key -> list of entries
  gone = {},      -- whole keys to remove
  news = {},      -- queue -> how many sleepers to wake
  ended = {},     -- ids of jobs that have come to an end
  tell = {},      -- sessions to wake
  look_again = false, -- a bound was reached: whoever asked should ask again
  skipped = 0,    -- how many entries of rows were met that stand for nobody
  fresh = {},     -- members of lines and of what is due, and ids of ended jobs, that this plan has put there
  earliest = nil, -- due time of the earliest job that becomes scheduled
}

-- The ways in and out that only some jobs take, and what is kept in order for them: in files of these names.
local lanes, relations, sorted = on_demand('lanes'), on_demand('relations'), on_demand('sorted')
local schedules, culprits = on_demand('schedules'), on_demand('culprits')

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

local function place(job)
  return pack('>I6I6', job.due, job.arrival) .. job.id
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

-- Back out of a list of score, member, ... of this very plan.
local function withdraw(list, member)
  for i = #list - 1, 1, -2 do
    if list[i + 1] == member then
      table.remove(list, i + 1)
      table.remove(list, i)
      return true
    end
  end
  return false
end

-- Out of whatever index its state has it in.
local function leave_state(job)
  local state = job.state
  count(job.queue, state, -1)
  if band(job.flags, MORE) ~= 0 then
    lanes.leave(job)
  end
  if state == READY then
    local member = place(job)
    if plan.fresh[member] and withdraw(plan.enter[job.queue], member) then
      plan.news[job.queue] = plan.news[job.queue] - 1
    else
      append(plan.leave, job.queue, member)
    end
  elseif state == SCHEDULED then
    local member = pack('>I6', job.arrival) .. job.id
    if not plan.fresh[member] or not withdraw(plan.due_in[job.queue] or {}, member) then
      append(plan.due_out, job.queue, member)
    end
  elseif state >= DONE then
    if not plan.fresh[job.id] or not withdraw(plan.ended_in[state], job.id) then
      append(plan.ended_out, state, job.id)
    end
    if state > DONE then
      index(state == FAILED and 'state:failed' or 'state:cancelled', job, false)
    end
    if state == FAILED then
      index('group:' .. story_of(job).group, job, false)
      tally_up(job.queue, job.finished, 'failed', -1)
    end
  else
    index('state:blocked', job, false)
  end
end

-- In line, where its due time puts it, whatever its lane says.
local function stand(job)
  local queue, member = job.queue, place(job)
  job.state = READY
  append(plan.enter, queue, -job.priority)
  append(plan.enter, queue, member)
  plan.fresh[member] = true
  plan.news[queue] = (plan.news[queue] or 0) + 1
  count(queue, READY, 1)
  change(job)
end

-- Not before it is due. That is news: a sleeper may have to set its timer.
local function schedule(job)
  local member = pack('>I6', job.arrival) .. job.id
  job.state = SCHEDULED
  append(plan.due_in, job.queue, job.due)
  append(plan.due_in, job.queue, member)
  plan.fresh[member] = true
  if not plan.earliest or job.due < plan.earliest then
    plan.earliest, plan.earliest_queue = job.due, job.queue
  end
  count(job.queue, SCHEDULED, 1)
  change(job)
end

local function block(job)
  job.state = BLOCKED
  count(job.queue, BLOCKED, 1)
  index('state:blocked', job, true)
  change(job)
end

local function unblock(job)
  count(job.queue, BLOCKED, -1)
  index('state:blocked', job, false)
end

-- Its time has come: in line, or in the line of its lane.
local function stand_in_line(job)
  if band(job.flags, MORE) == 0 or not lanes.enter(job) then
    stand(job)
  end
end

-- Where every job goes that wants to run: it waits for other jobs, for its turn, for its time, or in line.
local function wait_in_line(job)
  if band(job.flags, MORE) ~= 0 and (relations.hold(job) or lanes.hold(job)) then
    return
  end
  if job.due <= now then
    stand_in_line(job)
  else
    schedule(job)
  end
end

local function remember(job, at, what, detail, worker)
  job.flags = with(job.flags, HISTORY)
  append(plan.history, PREFIX .. 'history:' .. job.id,
    pack('>dHc0Ic0Hc0', at, #what, what, #detail, detail, #worker, worker))
end

-- What was written last into a job's history; '' if nothing was.
local function last_line(job)
  local key = PREFIX .. 'history:' .. job.id
  local planned = plan.history[key]
  local line = planned and planned[#planned] or band(job.flags, HISTORY) ~= 0 and call('LINDEX', key, -1)
  return line and unpack_from('>Hc0', line, 9) or ''
end

-- To a final state.
local function finish(job, state, finished)
  local is_end, sudden = job.state < DONE, job.state ~= RUNNING and job.started > 0
  job.state = state
  job.finished = math.max(finished, 1)
  job.flags = with(job.flags, RUN)
  if sudden then
    -- It has run before: that run must not be taken for the one that ended so.
    remember(job, job.finished, state == FAILED and 'failed' or 'cancelled', state == FAILED and story_of(job).group or '', '')
  end
  append(plan.ended_in, state, job.finished)
  append(plan.ended_in, state, job.id)
  plan.fresh[job.id] = true
  count(job.queue, state, 1)
  if state > DONE then
    index(state == FAILED and 'state:failed' or 'state:cancelled', job, true)
  end
  if state == FAILED then
    index('group:' .. story_of(job).group, job, true)
    tally_up(job.queue, job.finished, 'failures')
    tally_up(job.queue, job.finished, 'failed')
  elseif state == DONE then
    fold(job.queue, job.due, job.started, job.finished)
  end
  plan.ended[#plan.ended + 1] = job.id
  change(job)
  if is_end and band(job.flags, MORE) ~= 0 then
    relations.ended(job)
    lanes.ended(job)
    schedules.hear(job)
  end
end

-- What ended jobs take of the server's memory: added up as they end, taken off as they go.
local history_memory = {}

function history_memory.add(bytes)
  counts.ended_bytes = (counts.ended_bytes or 0) + bytes
end

-- About how many bytes one takes: its record, its large values (as they are, or if `planned` as they
-- will be), the history of runs before the last, and its places in hashes and sorted sets. All of that stays as it is while
-- the job has ended, so what was added up for it is what is taken off again when it goes.
local PLACES, FAILED_PLACES, RUN_LINES, RUNS_KEPT = 250, 150, 200, 50

function history_memory.of(id, record, planned)
  if #record < HEAD_SIZE then
    return #record + PLACES
  end
  local state, flags, _, attempts, crashes = unpack_from('>BHIIH', record)
  local bytes = #record + PLACES + (state == FAILED and FAILED_PLACES or 0)
    + RUN_LINES * math.min(math.max(attempts + crashes - 1, 0), RUNS_KEPT)
  local behind = HEAD_SIZE + (band(flags, RUN) ~= 0 and RUN_SIZE or 0) + unpack_from('>I', record, 38) + 1
  local large = band(flags, STORY) ~= 0 and record:byte(behind) or 0
  for kind, is_large in pairs({
    ['b:'] = band(flags, LARGE_BODY), ['d:'] = band(large, 1), ['r:'] = band(large, 2), ['e:'] = band(large, 4) }) do
    if is_large ~= 0 then
      local value = planned and plan.large[kind .. id]
      bytes = bytes + (value and #value or check_type(LARGE, 'hash') and call('HSTRLEN', LARGE, kind .. id) or 0)
    end
  end
  return bytes
end

local function session_of(number)
  return call('ZRANGEBYSCORE', SESSIONS, number, number, 'LIMIT', 0, 1)[1]
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

-- Who has a unique key, and until when at least; a plan may have changed that.
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

local more_of -- more.lua has it

-- All trace of a job.
local function remove(job)
  if band(job.flags, MORE) ~= 0 and job.state < DONE then
    schedules.hear(job)
  end
  if job.state == RUNNING then
    count(job.queue, RUNNING, -1)
    local session = session_of(job.session)
    if session then
      append(plan.held_out, PREFIX .. 'held:' .. session, job.id)
      plan.tell[session] = true
    end
    if band(job.flags, MORE) ~= 0 then
      lanes.stopped(job)
    end
  else
    leave_state(job)
  end
  local key = key_of(job)
  local holder = key and holder_of(key)
  if holder and holder.id == job.id then
    unique_seen[key] = false
    plan.unique_out[#plan.unique_out + 1] = key
  end
  if band(job.flags, HISTORY) ~= 0 then
    plan.gone[#plan.gone + 1] = PREFIX .. 'history:' .. job.id
  end
  if is_set_aside(job) then
    -- Its flags do not say any more what else there is of it.
    for _, kind in ipairs({ 'b:', 'd:', 'r:', 'e:' }) do
      plan.large[kind .. job.id] = false
    end
    plan.more[job.id] = false
    relations.write_parents(job.id, false)
    plan.gone[#plan.gone + 1] = PREFIX .. 'unmet:' .. job.id
    plan.gone[#plan.gone + 1] = PREFIX .. 'culprits:' .. job.id
  end
  if band(job.flags, MORE) ~= 0 then
    local more = more_of(job)
    for _, tag in ipairs(more.tags or {}) do
      index('tag:' .. tag, job, false)
    end
    if more.tracked then
      index('tracked', job, false)
    end
    if more.schedule then
      index('schedule:' .. more.schedule, job, false)
    end
    relations.removed(job)
    if job.state < DONE then
      lanes.ended(job)
    end
    plan.more[job.id] = false
  end
  if band(job.flags, LARGE_BODY) ~= 0 then
    plan.large['b:' .. job.id] = false
  end
  if band(job.flags, STORY) ~= 0 and band(job.told:byte(1), 7) ~= 0 then
    for _, kind in ipairs({ 'd:', 'r:', 'e:' }) do
      plan.large[kind .. job.id] = false
    end
  end
  if job.state < DONE then
    plan.ended[#plan.ended + 1] = job.id
  end
  if plan.jobs[job.id] == nil then
    plan.changed[#plan.changed + 1] = job.id
  end
  plan.jobs[job.id] = false
  leave_block(math.floor(job.arrival / BLOCK), 1)
end

-- When the next schedule ticks, if those of the plan come in addition; nil: none does.
local function next_tick()
  local head = not absent[TICKS] and call('ZRANGE', TICKS, 0, 0, 'WITHSCORES')[2]
  head = head and tonumber(head) or plan.earliest_tick
  return head and math.min(head, plan.earliest_tick or head)
end

-- Tell those who wait for what has ended. True: that is something to be written.
local function work_off()
  return (rawget(relations, 'write') or call('EXISTS', PREFIX .. 'releasing') == 1) and relations.work_off()
end
