-- circumstances: what bears on whether a job runs.
--
-- ARGV[2]  job id
-- Answers  {}, or {now, what find.lua says about it, {id, digit of its state, ...} of some jobs that it waits for, how many these
--          are, when and by whom its queue was paused, limit of its queue, {id, worker, ...} of some jobs that run in a queue with
--          a limit, how many these are, what `lane` answers, how many of its lane are before it or -1, {names of workers that could run it},
--          when it fails if it still waits then, or '', {since when, by whom, why} as msgpack if its task is blocked, or '', and how
--          many jobs wait because of that}
--@include current admission find queues

local LOOKED_AT = 10000
local job = find_job(ARGV[2])
if not job then
  return {}
end
local said = queues.about(job.queue)

local function waits_for()
  local more, found, number, listed = more_of(job), {}, 0, {}
  if more.after and job.state < DONE then
    local unmet = relations.unmet_of(job.id)
    number = unmet.number
    for _, id in ipairs(number > 0 and relations.parents_of(job) or {}) do
      if #found == 2 * SHOWN then
        break
      end
      local parent = not listed[id] and relations.is_in(unmet, id) and find_job(id)
      listed[id] = true
      if parent then
        found[#found + 1] = id
        found[#found + 1] = parent.state
      end
    end
  end
  return found, number
end

-- There is no index of these: in what sessions hold.
local function queue_running()
  local found, looked_at = {}, 0
  for _, session in ipairs(said.limit and call('ZRANGE', SESSIONS, 0, 999) or {}) do
    local ids = call('SRANDMEMBER', PREFIX .. 'held:' .. session, LOOKED_AT - looked_at)
    looked_at = looked_at + #ids
    load_many(ids)
    for _, id in ipairs(ids) do
      local other = find_job(id)
      if other and other.state == RUNNING and other.queue == job.queue then
        found[#found + 1] = other
      end
    end
    if looked_at >= LOOKED_AT then
      break
    end
  end
  table.sort(found, function(a, b)
    return a.arrival < b.arrival
  end)
  local answer = {}
  for i = 1, math.min(#found, SHOWN) do
    answer[2 * i - 1], answer[2 * i] = found[i].id, runner(found[i].session)
  end
  return answer
end

local task = task_of(job)

local function listeners()
  local names = {}
  for _, id in ipairs(call('ZRANGE', SESSIONS, 0, 999)) do
    local session = queues.is_served_by(id, job.queue, task)
    if session then
      names[#names + 1] = session.name
    end
  end
  return names
end

local lane, ahead = lanes.of(job), -1
if lane and job.state == BLOCKED then
  local _, member = lanes.place(lane, job)
  ahead = call('ZRANK', lane.line, member) or -1
end
local unmet, number = waits_for()
local expires, block_ = expiring.at(job), barring.about(task)
return {
  string.format('%.0f', now), describe(job), unmet, number, said.paused or '', said.limit or -1, queue_running(),
  said.limit and queues.running(job.queue) or 0,
  lane and lanes.describe(lanes.name(job.queue, more_of(job).lane.key)) or {}, ahead, listeners(),
  expires and string.format('%.0f', expires) or '', block_, barring.number(task),
}
