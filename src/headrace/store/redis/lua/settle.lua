-- Settling: what an outcome does to a job (the table in docs/contract.md).
--@include admission

local value_of, keep_value, keep_group, move, change_queue, end_run, remember_end

do -- only these are names outside: a script may have 200

local HAPPENED = {
  [K_AGAIN] = 'retried', [K_RELEASED] = 'released', [K_CRASHED] = 'crashed', [K_MOVED] = 'moved', [K_WAITING] = 'waiting',
}
local WRITTEN = { log = true, updated = true } -- lines of a run that has begun, whatever its worker says

-- What may be large: its letter in `large`, its bit in the story, its flag.
local VALUES = { data = { 'd:', 1, HAS_DATA }, result = { 'r:', 2, HAS_RESULT }, error = { 'e:', 4, HAS_ERROR } }

-- A value into its place: in the story if it is small, in `large` if it is not.
function keep_value(job, story, name, value)
  local kind, bit_, flag = unpack(VALUES[name])
  if band(story.large, bit_) ~= 0 then
    plan.large[kind .. job.id] = false
    story.large = without(story.large, bit_)
  end
  if not value then
    story[name] = ''
    job.flags = without(job.flags, flag)
    return
  end
  job.flags = with(job.flags, flag)
  if #value > INLINE then
    story[name] = ''
    story.large = with(story.large, bit_)
    plan.large[kind .. job.id] = value
  else
    story[name] = value
  end
end

-- The value from there; '' if it has none.
function value_of(job, story, name)
  local kind, bit_ = unpack(VALUES[name])
  if band(story.large, bit_) == 0 then
    return story[name]
  end
  return plan.large[kind .. job.id] or call('HGET', LARGE, kind .. job.id) or ''
end

function keep_group(job, story, group)
  story.group = group or ''
  job.flags = group and with(job.flags, HAS_GROUP) or without(job.flags, HAS_GROUP)
end

-- The queue that a job goes to from another: the test line of that, if it is test traffic.
local function same_traffic(queue, to)
  return queue:sub(1, 1) == '~' and to:sub(1, 1) ~= '~' and '~' .. to or to
end

-- The first bytes of `put` name queue and task; a moved or edited job gets others, and perhaps other options, another body.
function move(job, outcome)
  local queue, task, at = unpack_from('>Hc0Hc0', job.put)
  local rest = job.put:sub(at)
  queue, task = same_traffic(queue, outcome.queue or queue), outcome.task or task
  if outcome.options then
    if band(job.flags, HAS_OPTIONS) ~= 0 then
      local _, behind = unpack_from('>Ic0', rest)
      rest = rest:sub(behind)
    end
    job.flags = with(job.flags, HAS_OPTIONS)
    rest = pack('>Ic0', #outcome.options, outcome.options) .. rest
  end
  if outcome.body then
    local keeps = 1
    if band(job.flags, HAS_OPTIONS) ~= 0 then
      local _
      _, keeps = unpack_from('>Ic0', rest)
    end
    if band(job.flags, HAS_KEY) ~= 0 then
      local _
      _, keeps = unpack_from('>Hc0', rest, keeps)
    end
    rest = rest:sub(1, keeps - 1)
    if #outcome.body > INLINE then
      plan.large['b:' .. job.id] = outcome.body
      job.flags = with(job.flags, LARGE_BODY)
    else
      if band(job.flags, LARGE_BODY) ~= 0 then
        plan.large['b:' .. job.id] = false
        job.flags = without(job.flags, LARGE_BODY)
      end
      rest = rest .. outcome.body
    end
  end
  job.queue = queue
  job.put = pack('>Hc0Hc0', #queue, queue, #task, task) .. rest
end

-- A job goes on in a lane of the same key in another queue.
function change_queue(job, queue)
  queue = same_traffic(job.queue, queue or job.queue)
  if queue ~= job.queue and has_lane(job) then
    lanes.ended(job)
    job.queue = queue
    lanes.join(job)
  end
end

-- What a run costs a job, whatever came of it: attempts, crashes, deferrals, data, times.
local function charge_run(session, job, outcome, story)
  local charge = outcome.charge
  story.worker = session.name
  story.large = without(story.large, UPDATED)
  if charge == C_ATTEMPT then
    job.attempts = job.attempts + 1
  end
  if charge ~= C_DEFERRAL then
    story.deferred = 0
    job.flags = without(job.flags, HAS_DEFERRED)
  elseif band(job.flags, HAS_DEFERRED) == 0 then
    story.deferred = now
    job.flags = with(job.flags, HAS_DEFERRED)
  end
  if outcome.kind == K_CRASHED then
    job.crashes = math.min(job.crashes + 1, 65535)
  end
  if outcome.data then
    keep_value(job, story, 'data', outcome.data)
  end
  if outcome.began then
    job.started = math.max(now - outcome.began, 1)
  end
end

-- The state in which an outcome other than DONE ends a job, and its group; nil: it goes on. A job may fail because of what it would
-- wait for: that is the third.
local function final_state(job, outcome, is_cancelled)
  local kind = outcome.kind
  if is_cancelled then
    return CANCELLED, outcome.group
  elseif kind == K_FAILED then
    return FAILED, outcome.group
  elseif kind == K_BROKEN then
    return FAILED, 'broken'
  elseif kind == K_CRASHED and job.crashes >= job.max_crashes then
    return FAILED, 'crashed'
  elseif kind == K_WAITING or kind == K_MOVED and outcome.after then
    local reason = relations.wait_for(job, outcome.after or '', kind == K_WAITING and 0 or not outcome.at and outcome.delay or nil)
    if reason then
      return FAILED, 'dependency', reason
    end
  end
  return nil, outcome.group
end

-- A run that did not end its job: where the job goes.
local function go_on_waiting(session, job, outcome, what, ended)
  local kind = outcome.kind
  if kind == K_AGAIN and outcome.charge == C_ATTEMPT then
    stats.count(job.queue, ended, 'retries')
  end
  if band(job.flags, MORE) ~= 0 and (outcome.charge == C_ATTEMPT or kind ~= K_AGAIN and kind ~= K_RELEASED) then
    expiring.drop(job) -- it has started
  end
  if kind == K_MOVED or kind == K_RELEASED and outcome.queue then
    change_queue(job, outcome.queue)
    move(job, outcome)
  end
  if kind == K_MOVED then
    job.attempts, job.crashes = 0, 0
  end
  happened(job, what, outcome.note, session.name)
  if kind == K_AGAIN or kind == K_MOVED then
    job.due = math.max(outcome.at or now + outcome.delay, 0)
    wait_in_line(job)
  elseif kind == K_WAITING then
    job.due = now
    wait_in_line(job)
  else
    if more_of(job).expires then
      expiring.begin(job, job.due)
    end
    stand_in_line(job) -- where it stood, even if the clock was set back meanwhile
  end
  if has_lane(job) then
    lanes.look_again(job)
  end
end

-- Both lines of a run.
local function remember_run(session, job, ended, what, detail, account)
  remember(job, job.started, 'started', '', session.name)
  remember(job, math.max(ended, 1), what, detail, session.name, account)
end

function end_run(session, job, outcome)
  local kind, story = outcome.kind, story_of(job)
  local is_cancelled = band(job.flags, CANCELLING) ~= 0
  job.flags = without(job.flags, CANCELLING + SPARE)
  count(job.queue, RUNNING, -1)
  if has_lane(job) then
    if outcome.unstarted then
      lanes.never_started(job)
    end
    lanes.stopped(job)
  end
  append(plan.held_out, session.held, job.id)
  charge_run(session, job, outcome, story)
  local ended = now - (outcome.ended or 0)

  if kind == K_DONE then
    keep_value(job, story, 'result', outcome.result)
    keep_value(job, story, 'error', nil)
    keep_group(job, story, nil)
    if outcome.account then
      remember_run(session, job, ended, 'done', '', outcome.account)
    end
    tell(job, story)
    finish(job, DONE, ended)
    happened(job, 'done', '', session.name)
    return
  end
  if outcome.error then
    keep_value(job, story, 'error', outcome.error)
  end
  local state, group, reason = final_state(job, outcome, is_cancelled)
  if reason then
    ended = now
    keep_value(job, story, 'error', culprits.error(reason))
  end
  if group then
    keep_group(job, story, group)
  end
  local what = outcome.what or outcome.charge == C_DEFERRAL and 'deferred' or HAPPENED[kind]
  -- Of a failure more may be known than its group.
  if state and not reason and (outcome.account or state == FAILED and outcome.note) then
    local failed = state == FAILED
    remember_run(session, job, ended, failed and 'failed' or 'cancelled', failed and (outcome.note or group) or '', outcome.account)
  elseif not state and (outcome.began or outcome.what or kind == K_CRASHED or kind == K_WAITING or WRITTEN[last_line(job)]) then
    remember_run(session, job, ended, what, outcome.note or '', outcome.account)
  end
  tell(job, story)
  if not state then
    return go_on_waiting(session, job, outcome, what, ended)
  end
  finish(job, state, ended)
  if state == CANCELLED then
    happened(job, 'cancelled', '', session.name)
  else
    happened(job, 'failed', group, reason and '' or session.name) -- no worker ran it into what it waits for
  end
end

-- How a job ended goes into its history before it is overwritten, unless it is there already.
function remember_end(job)
  local ended = job.state == FAILED and 'failed' or job.state == DONE and 'done' or 'cancelled'
  if last_line(job) == ended then
    return
  end
  local story = story_of(job)
  if job.started > 0 then
    remember(job, job.started, 'started', '', story.worker)
  end
  remember(job, job.finished, ended, job.state == FAILED and story.group or '', story.worker)
end

end
