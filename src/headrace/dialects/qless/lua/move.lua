-- What it takes to put a job that is somewhere already.

-- A job leaves where it was: its queue, its worker, the completed, the failed.
function Move.leave(caller, jid, state, queue, worker, failure)
  if queue and queue ~= '' then
    for _, place in ipairs({'-work', '-locks', '-depends', '-scheduled'}) do
      call('ZREM', 'ql:q:' .. queue .. place, jid)
    end
  end
  if worker and worker ~= '' then
    call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)
    if worker ~= caller then
      Qless.Events.tell(worker, {jid = jid, event = 'lock_lost', worker = worker})
    end
  end
  if state == 'complete' then
    call('ZREM', 'ql:completed', jid)
  elseif state == 'failed' then
    Qless.Failures.forget(jid, queue, Qless.Values.stored(failure))
  end
end

-- How many jobs a job goes on waiting for, and those that an explicit list of dependencies leaves out.
function Move.sort_dependencies(key, depends)
  local present, kept, dropped = call('SMEMBERS', key .. '-dependencies'), {}, {}
  local wanted = {}
  for _, other in ipairs(depends) do
    wanted[tostring(other)] = true
  end
  for _, other in ipairs(present) do
    local list = (#depends == 0 or wanted[other]) and kept or dropped
    list[#list + 1] = other
  end
  return #kept, dropped
end
