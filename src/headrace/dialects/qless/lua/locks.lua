-- Locks that have ended. Nothing happens when they do: it is the next pop that deals with them.

-- The first end of a lock is only a warning: the worker is told, and has `grace` more seconds.
local function warn(now, queue, jid, worker, grace, history, most_entries)
  local key = 'ql:j:' .. jid
  call('HSET', key, 'grace', 1)
  call('ZADD', 'ql:q:' .. queue .. '-locks', now + grace, jid)
  remember(key, '[' .. math.floor(now) .. ',"timed-out"]', history, most_entries)
  Qless.Events.tell_trackers(jid, 'ql:stalled')
  Qless.Events.tell(worker, {jid = jid, event = 'lock_lost', worker = worker})
  Qless.Statistics.count(now, queue, 'retries', 1)
end

-- The second end of a lock costs the job an attempt. True if it has another one; if not, it has failed.
local function take_away(now, queue, jid, worker, job_queue, remaining, history, most_entries)
  local key = 'ql:j:' .. jid
  remaining = remaining - 1
  if remaining >= 0 then
    call('HSET', key, 'remaining', remaining)
    call('HDEL', key, 'grace')
    return true
  end
  local group = 'failed-retries-' .. job_queue
  local failure = Qless.Failures.exhausted(now, group, job_queue)
  Qless.Failures.record(now, jid, queue, queue, failure, {'remaining', remaining})
  remember(key, cjson.encode({math.floor(now), 'failed', {group = group}}), history, most_entries)
  Qless.Events.tell_trackers(jid, 'ql:failed')
  call('PUBLISH', 'ql:log', cjson.encode(
    {jid = jid, event = 'failed', group = group, worker = worker, message = failure.message}))
  return false
end

-- Deal with locks that have ended. Answers with the jids that are free to be handed on.
function Locks.expire(now, queue, jids, grace, most_entries)
  local free = {}
  for _, jid in ipairs(jids) do
    local exists, worker, job_queue, remaining, warned, history = unpack(
      call('HMGET', 'ql:j:' .. jid, 'jid', 'worker', 'queue', 'remaining', 'grace', 'history'))
    if not exists then
      call('ZREM', 'ql:q:' .. queue .. '-locks', jid)
    else
      worker = worker or ''
      call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)
      local is_warned = grace > 0 and warned == '1'
      if not is_warned then
        warn(now, queue, jid, worker, grace, history, most_entries)
        history = nil
      end
      if is_warned or grace <= 0 then
        remaining = stored_number(remaining, 0)
        if take_away(now, queue, jid, worker, job_queue or queue, remaining, history, most_entries) then
          free[#free + 1] = jid
        end
      end
    end
  end
  return free
end
