-- Settling and taking in one step, for headrace's own worker.

local OK, ALREADY, STALE = 0, 1, 2
local DONE, AGAIN, FAILED, BROKEN, RELEASED, CRASHED, MOVED = 0, 1, 2, 3, 4, 5, 6

-- An attempt that is not to be spent is given before it is taken. (Others may have put half a one.)
local function spare_an_attempt(jid)
  local key = 'ql:j:' .. jid
  call('HSET', key, 'remaining', stored_number(call('HGET', key, 'remaining'), 0) + 1)
end

-- What became of one run that the worker holds.
local function settle(now, worker, queue, outcome)
  local jid, kind, key = outcome.jid, outcome.kind, 'ql:j:' .. outcome.jid
  local delay = outcome.at and math.max(0, outcome.at - now) or outcome.delay
  if outcome.data then
    call('HMSET', key, 'data', outcome.data, 'headrace', outcome.said)
  end
  if outcome.deferred then
    call('HSETNX', key, 'headrace-deferred', now)
  else
    call('HDEL', key, 'headrace-deferred')
  end
  if kind == DONE or kind == MOVED then
    if outcome.klass then
      call('HSET', key, 'klass', outcome.klass)
    end
    local to = kind == MOVED and (outcome.queue or queue) or nil
    Qless.Completion.complete(now, jid, worker, queue, call('HGET', key, 'data') or '{}', to, delay)
  elseif kind == FAILED or kind == BROKEN then
    Qless.Failures.fail(now, jid, worker, kind == BROKEN and 'broken' or outcome.group, outcome.message)
  else
    if not outcome.spends then
      spare_an_attempt(jid)
    end
    Qless.Failures.retry(now, jid, queue, worker, delay, outcome.group, outcome.message)
  end
end

local function settle_all(now, worker, outcomes)
  local verdicts = {}
  for i, outcome in ipairs(outcomes) do
    local queue, ended = Qless.Sessions.holds(worker, outcome.jid, outcome.token)
    if queue then
      settle(now, worker, queue, outcome)
      verdicts[i] = OK
    else
      verdicts[i] = ended and ALREADY or STALE
    end
  end
  return verdicts
end

local function with_fields(jobs)
  for _, job in ipairs(jobs) do
    Qless.Sessions.add_fields(job)
  end
  return jobs
end

-- How many more jobs of a queue a worker may get. Those of a queue with a limit are for free slots only: one that is held
-- ready would keep another worker from running one.
local function room_for(queue, jobs, wanted)
  if wanted.count > wanted.slots and option(call('HGET', 'ql:config', queue .. '-max-concurrency'), 0) > 0 then
    return wanted.slots - jobs
  end
  return wanted.count - jobs
end

local function take(now, worker, wanted)
  local jobs, most = {}, wanted.count
  local queues, left = wanted.queues, #wanted.queues
  while #jobs < most and left > 0 do
    left = 0
    for i, queue in ipairs(queues) do
      if queue and #jobs < most then
        local room = room_for(queue, #jobs, wanted)
        local popped = room > 0 and Qless.Pop.pop(now, queue, worker, wanted.round_robin and 1 or room) or {}
        for _, job in ipairs(popped) do
          jobs[#jobs + 1] = job
        end
        if popped[1] and wanted.round_robin then
          left = left + 1
        else
          queues[i] = false
        end
      end
    end
  end
  return with_fields(jobs)
end

local function earlier(one, other)
  return one and other and math.min(one, other) or one or other
end

-- When a queue that has something due, and gave nothing, may give something: never while it is paused, and when a living
-- lock ends if as many run as may.
local function gives_again(now, queue, due)
  if call('SISMEMBER', 'ql:paused_queues', queue) == 1 then
    return nil
  end
  local limit = option(call('HGET', 'ql:config', queue .. '-max-concurrency'), 0)
  local locks = 'ql:q:' .. queue .. '-locks'
  if limit > 0 and call('ZCOUNT', locks, now, '+inf') >= limit then
    return stored_number(call('ZRANGEBYSCORE', locks, now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
  end
  return due
end

-- When something is to be done in one of these queues, if nothing else happens before: a job is due, or a lock ends.
local function next_due(now, queues)
  local earliest
  for _, queue in ipairs(queues) do
    local due
    for _, place in ipairs({'-scheduled', '-recur', '-locks'}) do
      due = earlier(due, stored_number(call('ZRANGE', 'ql:q:' .. queue .. place, 0, 0, 'WITHSCORES')[2]))
    end
    if due and due <= now then
      due = gives_again(now, queue, due)
    end
    earliest = earlier(earliest, due)
  end
  return earliest
end

-- Those of the jobs of an earlier answer that the worker still holds.
local function still_held(worker, jobs)
  local found = {}
  for _, known in ipairs(jobs) do
    if Qless.Sessions.holds(worker, known[1], known[2]) then
      found[#found + 1] = Qless.Job.get(known[1])
    end
  end
  return with_fields(found)
end

-- exchange session number outcomes wanted
-- Reply: JSON {verdicts, jobs, due}.
function Exchange.exchange(now, session, number_given, outcomes, wanted)
  local worker, before, took = Qless.Sessions.request(session, number_given)
  if before then
    local answer = Qless.Values.stored(before)
    return {verdicts = answer[1], jobs = still_held(worker, answer[2]), due = next_due(now, wanted and wanted.queues or {})}
  end
  local queues = {unpack(wanted and wanted.queues or {})}
  local verdicts = settle_all(now, worker, outcomes)
  local jobs = {}
  if wanted then
    -- A clock that stands still or goes back must not make two hand-outs look alike.
    took = math.max(now, took + 0.000001)
    jobs = take(took, worker, wanted)
  end
  local handed = {}
  for i, job in ipairs(jobs) do
    handed[i] = {job.jid, job.token}
  end
  Qless.Sessions.answer(session, number_given, {verdicts, handed}, took)
  return {verdicts = verdicts, jobs = jobs, due = next_due(now, queues)}
end

-- renew session held
-- A heartbeat for each job that the worker still holds. Reply: JSON {codes, ends}: a list, 0 for those and 1 for the
-- others; and when the first of these locks will end.
function Exchange.renew(now, session, held)
  local worker, codes, ends = Qless.Sessions.existing(session), {}, nil
  call('ZADD', 'ql:workers', now, worker)
  call('EXPIRE', Qless.Sessions.key(session), 604800)
  for i, known in ipairs(held) do
    if Qless.Sessions.holds(worker, known[1], known[2]) then
      ends = math.min(Qless.Change.heartbeat(now, known[1], worker), ends or math.huge)
      codes[i] = 0
    else
      codes[i] = 1
    end
  end
  return {codes = codes, ends = ends}
end

-- quarantine session jobs
-- Jobs that the worker was given and cannot read, a list of {jid, token, message}, fail.
function Exchange.quarantine(now, session, jobs)
  local worker = Qless.Sessions.existing(session)
  for _, job in ipairs(jobs) do
    if Qless.Sessions.holds(worker, job[1], job[2]) then
      Qless.Failures.fail(now, job[1], worker, 'broken', job[3])
    end
  end
end

-- report session number reports
-- Data, progress and log lines of running jobs. Reply: a list, 1 for those that are recorded.
function Exchange.report(now, session, number_given, reports)
  local worker, before, took = Qless.Sessions.request(session, number_given)
  if before then
    return Qless.Values.stored(before)
  end
  local answers = {}
  for i, report in ipairs(reports) do
    answers[i] = 0
    if Qless.Sessions.holds(worker, report.jid, report.token) then
      if report.data then
        call('HMSET', 'ql:j:' .. report.jid, 'data', report.data, 'headrace', report.said)
      end
      for _, line in ipairs(report.lines) do
        Qless.Change.log(now - line[1], report.jid, line[2], {worker = worker, log = true})
      end
      answers[i] = 1
    end
  end
  Qless.Sessions.answer(session, number_given, answers, took)
  return answers
end

-- close session crashed
-- Gives back all that the session holds. `crashed` names those that cost an attempt; nil means all of them do.
-- Reply: list of jids.
function Exchange.close(now, session, crashed)
  local key = Qless.Sessions.key(session)
  local worker, closed = unpack(call('HMGET', key, 'worker', 'closed'))
  if not worker or closed then
    return {}
  end
  local guilty, given_back = {}, {}
  for _, jid in ipairs(crashed or {}) do
    guilty[jid] = true
  end
  for _, jid in ipairs(call('ZRANGE', 'ql:w:' .. worker .. ':jobs', 0, -1)) do
    local state, holder, queue = unpack(call('HMGET', 'ql:j:' .. jid, 'state', 'worker', 'queue'))
    if state == 'running' and holder == worker then
      if crashed and not guilty[jid] then
        spare_an_attempt(jid)
        Qless.Failures.retry(now, jid, queue, worker, 0)
      else
        Qless.Failures.retry(now, jid, queue, worker, 0, 'crashed', 'Its worker died.')
      end
      given_back[#given_back + 1] = jid
    end
  end
  call('HSET', key, 'closed', 1)
  call('ZREM', 'ql:workers', worker)
  return given_back
end
