-- Sessions of headrace's own worker: `headrace:qless:<session>`, beside the protocol. A session speaks as the Qless worker
-- `worker`; `number` and `answer` are its last request and what it was told, so that a request may be repeated.

local KEPT = 604800

function Sessions.key(session)
  return 'headrace:qless:' .. session
end

-- What a session has said of itself, by the name of its worker; nil if this is no worker of ours.
function Sessions.info(worker)
  local session = string.match(worker, '^headrace%-(.+)$')
  return session and call('HGET', Sessions.key(session), 'info') or nil
end

-- What headrace keeps with a job beside the protocol.
function Sessions.add_fields(job)
  job.token, job.said, job.deferred, job.options, job.after = unpack(call('HMGET', 'ql:j:' .. job.jid, 'time', 'headrace',
    'headrace-deferred', 'headrace-options', 'headrace-after'))
  -- Whoever made an occurrence has copied what Qless knows: the rest is with its recurring job.
  if job.spawned_from_jid then
    local name, options = unpack(call('HMGET', 'ql:r:' .. job.spawned_from_jid, 'headrace-name', 'headrace-options'))
    job.schedule, job.options = name or job.spawned_from_jid, job.options or options
  end
end

function Sessions.open(now, session, worker, info)
  local key = Sessions.key(session)
  if call('HGET', key, 'closed') then
    error('HEADRACE GONE Session ' .. session .. ' is closed .')
  end
  call('HMSET', key, 'worker', worker, 'info', info)
  call('EXPIRE', key, KEPT)
  call('ZADD', 'ql:workers', now, worker)
end

-- The worker as which a session speaks, its last number and answer, and when it took something last. An error if it is
-- not open.
function Sessions.existing(session)
  local worker, closed, last, answer, took = unpack(
    call('HMGET', Sessions.key(session), 'worker', 'closed', 'number', 'answer', 'took'))
  if not worker or closed then
    error('HEADRACE GONE Session ' .. session .. ' is unknown or closed .')
  end
  return worker, tonumber(last) or 0, answer, tonumber(took) or 0
end

-- The same for a request with a number. The answer is only given for a number that has been answered.
function Sessions.request(session, number_given)
  local worker, last, answer, took = Sessions.existing(session)
  if number_given < last then
    error('HEADRACE STALE Request ' .. number_given .. ' of session ' .. session .. ' comes after ' .. last .. ' .')
  end
  return worker, number_given == last and answer or nil, took
end

function Sessions.answer(session, number_given, answer, took)
  call('HMSET', Sessions.key(session), 'number', number_given, 'answer', cjson.encode(answer), 'took', took or 0)
  call('EXPIRE', Sessions.key(session), KEPT)
end

-- Whether a worker holds a job by this very hand-out. The time of the pop tells hand-outs apart: no session takes twice at
-- the same time. Answers with the job's
-- queue; or nil, and whether it was this hand-out that has ended.
function Sessions.holds(worker, jid, token)
  local state, holder, time, queue = unpack(call('HMGET', 'ql:j:' .. jid, 'state', 'worker', 'time', 'queue'))
  if holder == worker and time == token then
    if state == 'running' then
      return queue or ''
    end
    return nil, true
  end
end
