-- The end of jobs that nobody wants any more.

-- One job leaves everything it is in, and is gone.
local function remove(jid)
  local key = 'ql:j:' .. jid
  local state, queue, worker, failure, tags = unpack(
    call('HMGET', key, 'state', 'queue', 'worker', 'failure', 'tags'))
  if state == 'complete' then
    return
  end
  call('DEL', key, key .. '-history')
  local message = cjson.encode({jid = jid, worker = worker, event = 'canceled', queue = queue})
  call('PUBLISH', 'ql:log', message)
  if worker and worker ~= '' then
    call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)
    call('PUBLISH', 'ql:w:' .. worker, message)
  end
  if queue and queue ~= '' then
    for _, place in ipairs({'-work', '-locks', '-scheduled', '-depends'}) do
      call('ZREM', 'ql:q:' .. queue .. place, jid)
    end
  end
  Qless.Dependencies.remove(jid, call('SMEMBERS', key .. '-dependencies'))
  if state == 'failed' then
    Qless.Failures.forget(jid, queue, Qless.Values.stored(failure))
  end
  Qless.Tags.forget(jid, Qless.Values.stored(tags))
  Qless.Events.tell_trackers(jid, 'ql:canceled')
end

-- One of the jobs that another depends on which is not among them, and that other one; nil if there is none.
function Cancel.needed(jids)
  local given = {}
  for _, jid in ipairs(jids) do
    given[jid] = true
  end
  for _, jid in ipairs(jids) do
    for _, dependent in ipairs(call('SMEMBERS', 'ql:j:' .. jid .. '-dependents')) do
      if not given[dependent] then
        return jid, dependent
      end
    end
  end
end

-- Make an end of jobs that are not complete. Refused while a job that stays depends on one of them.
function Cancel.cancel(jids)
  local jid, dependent = Cancel.needed(jids)
  if jid then
    error('Cancel(): ' .. jid .. ' is a dependency of ' .. dependent .. ' but is not mentioned to be canceled')
  end
  -- Each mention is published, as the deployed script does: the second one is that of a job that does not exist.
  for _, one in ipairs(jids) do
    remove(one)
  end
  return jids
end
