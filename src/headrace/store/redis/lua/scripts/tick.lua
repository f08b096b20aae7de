-- tick: put the jobs of schedules, each if its schedule still has the version that they were worked out from.
--
-- ARGV[2]  the ticks: for each H name, I version, B given (1 last_tick, 2 next), d last_tick, d next, H number of jobs, and
--          the jobs as in `put`
-- Answers  {now, when the next schedule ticks or '', a byte per tick: 1 if it counted}
-- Fails    REFUSED
--@include put commit
batch = ARGV[2]

local ALLOW, SKIP, QUEUE = 0, 1, 2

-- Whether the policy lets a job in beside the one before; what has to go for it goes.
local function admit(job, record)
  local lane = job.more and cmsgpack.unpack(job.more).lane
  if find_job(job.id) or lane and lanes.clashes(job.queue, lane) then
    return false
  end
  local previous = record.last_job ~= '' and find_job(record.last_job)
  if record.overlap == ALLOW or not previous or previous.state >= DONE then
    return true
  end
  if record.overlap == SKIP or record.overlap == QUEUE and previous.state == BLOCKED then
    return false
  end
  if record.overlap == QUEUE then
    local more = job.more and cmsgpack.unpack(job.more) or {}
    more.after, more.if_failed = { previous.id }, 'run'
    job.more = cmsgpack.pack(more)
  elseif previous.state == RUNNING then
    ask_to_stop(previous)
  else
    happened(previous, 'deleted', 'replaced')
    remove(previous)
  end
  return true
end

check_type(TICKS, 'zset')
count_arrivals()
local done, changed = {}, false
while at <= #batch do
  local name, version, given, last_tick, next_, number
  name, version, given, last_tick, next_, number, at = unpack_from('>Hc0IBddH', batch, at)
  checks.number(last_tick, 0, LATEST, 'The last tick of schedule ', name)
  checks.number(next_, 0, LATEST, 'The next tick of schedule ', name)
  local record = schedules.find(name)
  local counts = record and record.version == version
  done[#done + 1] = counts and '\1' or '\0'
  for _ = 1, number do
    local job = new_job(next_job())
    check_job(job.id, job.queue, job.flags, job.put, job.key, job.unique_for, job.more)
    if counts and (record.max_runs == 0 or record.runs < record.max_runs) and admit(job, record) then
      insert(job)
      record.runs, record.last_job = record.runs + 1, job.id
    end
  end
  if counts then
    changed = true
    local over = record.max_runs > 0 and record.runs >= record.max_runs
    record.flags = without(record.flags, schedules.NEXT + schedules.STARTED + schedules.FINISHED)
    record.next, record.started, record.finished = 0, 0, 0
    if band(given, 2) ~= 0 and not over then
      record.next, record.flags = next_, with(record.flags, schedules.NEXT)
    end
    if band(given, 1) ~= 0 then
      record.last_tick, record.flags = last_tick, with(record.flags, schedules.LAST_TICK)
    end
    schedules.keep(record)
  end
end
local worked = work_off()
if changed or worked then
  commit(keep_arrivals())
end
local head = call('ZRANGE', TICKS, 0, 0, 'WITHSCORES')[2]
return { string.format('%.0f', now), head and string.format('%.0f', tonumber(head)) or '', table.concat(done) }
