-- set_aside: a job of which something cannot be read fails in the group `damaged`, so that it is in the way of no other. Its record is
-- kept, byte by byte, as the body of the new one, whose task has no name.
--
-- ARGV[2]  job id
-- ARGV[3]  its queue, ARGV[4] its arrival number, as far as they are known where it was met; '' if not
-- ARGV[5]  what to say about it: the error
-- Answers  1, or 0 if there is nothing wrong with it (any more)
--@include current commit queues

local id = ARGV[2]
local record = call('HGET', JOB, id)

local function read_all()
  local job = parse(id, record)
  unpack_from('>Hc0Hc0', job.put)
  key_of(job)
  story_of(job)
  more_of(job)
  relations.parents_of(job)
end

if not record or pcall(read_all) then
  return 0
end

-- What is known of it: from the record, whose first bytes are still right if it was cut (one that begins with no state is not to
-- be trusted at all); from where it was met; and from where it stands.
local state, due, created, queue, arrival = record:byte(1), 0, now, ARGV[3], tonumber(ARGV[4])
if state and state > CANCELLED then
  state = nil
end
if state and #record >= 19 then
  due = unpack_from('>I6', record, DUE_AT)
end
if state and #record >= HEAD_SIZE then
  created = unpack_from('>I6', record, CREATED_AT)
  arrival = arrival or unpack_from('>I6', record, ARRIVAL_AT)
  arrival = arrival <= last_arrival() and arrival or nil
end

-- Members of lines and of what is due end with the arrival number and the id.
local function stands_among(members)
  for _, member in ipairs(members) do
    if #member - #id >= 6 and member:sub(-#id) == id then
      arrival = unpack_from('>I6', member, #member - #id - 5)
      due = #member - #id == 12 and unpack_from('>I6', member) or due
      return true
    end
  end
  return false
end

-- Perhaps only one queue has jobs in this state.
local function only_queue_with(state_)
  local candidates = {}
  for _, field in ipairs(call('HKEYS', META)) do
    if field:byte(1) == 48 + state_ then
      candidates[#candidates + 1] = field:sub(2)
    end
  end
  return not candidates[2] and candidates[1] or ''
end

if queue == '' then
  local good, found = pcall(parse, id, record)
  queue = good and found.queue or ''
end
if queue == '' and state and call('HLEN', META) <= 10000 then
  queue = only_queue_with(state)
end
if not state then
  local falls_due = arrival and queue ~= '' and call('ZSCORE', PREFIX .. 'due:' .. queue, pack('>I6', arrival) .. id)
  if falls_due then
    state, due = SCHEDULED, tonumber(falls_due)
  elseif queue ~= '' and (stands_among(call('ZRANGE', PREFIX .. 'line:' .. queue, 0, 999))
    or stands_among(call('LRANGE', PREFIX .. 'row:' .. queue, 0, 999))) then
    state = READY
  elseif queue ~= '' and arrival then
    state = BLOCKED -- it was met in a lane
  end
elseif not arrival and state == READY and queue ~= '' then
  stands_among(call('ZRANGE', PREFIX .. 'line:' .. queue, 0, 999))
elseif not arrival and state == SCHEDULED and queue ~= '' then
  stands_among(call('ZRANGEBYSCORE', PREFIX .. 'due:' .. queue, due, due, 'LIMIT', 0, 1000))
end

-- One that does not say when it came is listed as if it came now.
local function arrives_anew()
  local number = last_arrival() + 1
  local block = math.floor(number / BLOCK)
  set_field(META, 'jobs', string.format('%.0f', number))
  plan.lists[PREFIX .. 'block:' .. string.format('%.0f', block)] = { push = { pack('>Hc0', #id, id) } }
  plan.sorted_in[ARRIVALS] = { block, string.format('%.0f', block) }
  return number
end

-- Out of wherever its state had it, as far as that is known.
local function leave_places(job)
  if not state then
    append(plan.sorted_out, ENDED[DONE], id)
    append(plan.sorted_out, ENDED[CANCELLED], id)
    index('state:cancelled', job, false)
    index('state:blocked', job, false)
  elseif job.state >= DONE then
    count(job.queue, job.state, queue ~= '' and -1 or 0)
    if state == FAILED and queue ~= '' and #record >= HEAD_SIZE + RUN_SIZE and band(unpack_from('>H', record, 2), RUN) ~= 0 then
      stats.count(queue, unpack_from('>I6', record, 58), 'failed', -1) -- it fails again, now
    end
    if job.state ~= FAILED then
      append(plan.sorted_out, ENDED[job.state], id)
      index('state:cancelled', job, false)
    end
  elseif job.state ~= RUNNING and queue ~= '' then
    leave_state(job)
  elseif queue ~= '' then
    count(queue, RUNNING, -1)
    if has_lane(job) then
      lanes.stopped(job)
    end
  end
end

local more = call('HGET', MORE_KEY, id)
local good, kept = pcall(cmsgpack.unpack, more or '')
local job = {
  id = id, state = state or BLOCKED, flags = RUN, token = 0, attempts = 0, crashes = 0, due = due, created = created,
  arrival = arrival or arrives_anew(), priority = 0, max_crashes = 1, session = 0, request = 0, started = 0, finished = 0,
  queue = queue ~= '' and queue or '(unknown)', story = '',
}
job.put = pack('>Hc0Hc0', #job.queue, job.queue, 0, '') .. record
if good and type(kept) == 'table' and arrival and queue ~= '' then
  job.flags = with(job.flags, MORE)
end
if call('EXISTS', PREFIX .. 'history:' .. id) == 1 then
  job.flags = with(job.flags, HISTORY)
end
leave_places(job)
local story = story_of(job)
keep_value(job, story, 'error', ARGV[5])
keep_group(job, story, 'damaged')
tell(job, story)
finish(job, FAILED, now)
happened(job, 'failed', 'damaged')
work_off()
queues.tell_of_room()
commit(even_when_full)
return 1
