-- Where a job goes: into line, behind its time, into the line of its lane, behind the jobs that it waits for, to an end, or away.
-- These only change the plan; scripts that change jobs have all of this, and end with `commit`.
--@include plan failing

local function place(job)
  return pack('>I6I6', job.due, job.arrival) .. job.id
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
  if has_lane(job) then
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
    if not plan.fresh[job.id] or not withdraw(plan.sorted_in[ENDED[state]] or {}, job.id) then
      append(plan.sorted_out, ENDED[state], job.id)
    end
    if state == FAILED then
      index('state:failed', job, false)
      index('group:' .. story_of(job).group, job, false)
      stats.count(job.queue, job.finished, 'failed', -1)
    elseif state == CANCELLED then
      index('state:cancelled', job, false)
    end
  else
    index('state:blocked', job, false)
    if more_of(job).barred then
      barring.clear(job)
    end
  end
end

-- In line, where its due time puts it, whatever its lane says.
local function stand(job)
  local queue, member = job.queue, place(job)
  job.state = READY
  append(plan.enter, queue, -job.priority, member)
  plan.fresh[member] = true
  plan.news[queue] = (plan.news[queue] or 0) + 1
  if job.priority > 0 then
    plan.urgent[queue] = math.max(job.priority, plan.urgent[queue] or 0)
  end
  count(queue, READY, 1)
  change(job)
end

-- Not before it is due. That is news: a sleeper may have to set its timer.
local function schedule(job)
  local member = pack('>I6', job.arrival) .. job.id
  job.state = SCHEDULED
  append(plan.due_in, job.queue, job.due, member)
  plan.fresh[member] = true
  if not plan.earliest or job.due < plan.earliest then
    plan.earliest, plan.earliest_queue = job.due, job.queue
  end
  count(job.queue, SCHEDULED, 1)
  change(job)
end

-- `later`: it waits for its time, too.
local function block(job, later)
  local more = more_of(job)
  if more.later ~= (later or nil) then
    more.later = later or nil
    keep_more(job, more)
  end
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
  if has_lane(job) then
    lanes.enter(job)
  else
    stand(job)
  end
end

-- Where every job goes that wants to run: it waits for other jobs, for its place in a sequence, for its time, or in line. `was_due`: it
-- was due before, and is, whatever the clock says now.
local function wait_in_line(job, was_due)
  local later = job.due > now and not was_due
  if band(job.flags, MORE) ~= 0 then
    if more_of(job).expires then
      expiring.begin(job, job.due)
    end
    if relations.waits(job) then
      return block(job, later)
    elseif has_lane(job) and lanes.hold(job, later) then
      return
    end
  end
  if later then
    schedule(job)
  else
    stand_in_line(job)
  end
end

-- To a final state.
local function finish(job, state, finished)
  local is_end, sudden = job.state < DONE, job.state ~= RUNNING and job.started > 0
  job.state = state
  job.finished = math.max(finished, 1)
  job.flags = with(job.flags, RUN)
  local group = state == FAILED and story_of(job).group
  if sudden then
    -- It has run before: that run must not be taken for the one that ended so.
    remember(job, job.finished, group and 'failed' or 'cancelled', group or '', '')
  end
  append(plan.sorted_in, ENDED[state], job.finished, job.id)
  plan.fresh[job.id] = true
  count(job.queue, state, 1)
  if group then
    index('state:failed', job, true)
    index('group:' .. group, job, true)
    stats.count(job.queue, job.finished, 'failures')
    append(failing.times, group, job.finished)
    stats.count(job.queue, job.finished, 'failed')
  elseif state == CANCELLED then
    index('state:cancelled', job, true)
  else
    fold(job.queue, job.due, job.started, job.finished)
  end
  plan.ended[#plan.ended + 1] = job.id
  change(job)
  local more = is_end and more_of(job) or {}
  if more.precedes then
    relations.ended(job, more)
  end
  if is_end and has_lane(job) then
    lanes.ended(job)
  end
  if more.schedule then
    schedules.job_ended(job)
  end
  if more.expires then
    expiring.stop(job)
  end
end

-- All trace of a job.
local function remove(job)
  stats.gone(job.queue, job.created, job.state >= DONE and job.finished or nil)
  if job.state < DONE and more_of(job).schedule then
    schedules.job_ended(job)
  end
  if job.state == RUNNING then
    count(job.queue, RUNNING, -1)
    local session = session_of(job.session)
    if session then
      append(plan.held_out, PREFIX .. 'held:' .. session, job.id)
      plan.tell[session] = true
    end
    if has_lane(job) then
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
  local set_aside = is_set_aside(job)
  if set_aside then
    -- Its flags do not say any more what else there is of it.
    plan.more[job.id] = false
    set_field(AFTER, job.id, false)
    plan.gone[#plan.gone + 1] = PREFIX .. 'unmet:' .. job.id
    plan.gone[#plan.gone + 1] = PREFIX .. 'culprits:' .. job.id
    plan.gone[#plan.gone + 1] = PREFIX .. 'links:' .. job.id
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
    if job.state < DONE and has_lane(job) then
      lanes.ended(job)
    end
    if job.state < DONE and more.expires then
      expiring.stop(job)
    end
    plan.more[job.id] = false
  end
  if set_aside or band(job.flags, LARGE_BODY) ~= 0 then
    plan.large['b:' .. job.id] = false
  end
  if set_aside or band(job.flags, STORY) ~= 0 and band(job.story:byte(1), 7) ~= 0 then
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

-- Release or fail dependents of jobs that have ended. True: there is something to be written.
local function work_off()
  return (rawget(relations, 'write') or call('EXISTS', PREFIX .. 'releasing') == 1) and relations.work_off()
end

-- A running job is to stop: its session is woken.
local function ask_to_stop(job)
  if band(job.flags, CANCELLING) == 0 then
    happened(job, 'cancelling')
  end
  job.flags = with(job.flags, CANCELLING)
  change(job)
  local session = session_of(job.session)
  if session then
    plan.tell[session] = true
  end
end
--@include settle schedules sorted lanes culprits relations links expiry blocks
