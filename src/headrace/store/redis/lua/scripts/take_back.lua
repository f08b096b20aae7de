-- take_back: take running jobs away from their workers, as if they had been given back.
--
-- ARGV[2]     '', or the queue whose line they go to
-- ARGV[3...]  job ids
-- Answers     for each 1, or 0 if it does not run
--@include current acts

local to = ARGV[2] ~= '' and ARGV[2] or nil
checks.text(to or '', 'The queue')
return act_on(arguments(3), even_when_full, function(job)
  if job.state ~= RUNNING then
    return false
  end
  local holder = session_of(job.session)
  local session = holder and read_session(holder)
  if not session or session.closed then
    session = { name = '', held = PREFIX .. 'held:' .. (holder or '') }
  end
  end_run(session, job, { kind = K_RELEASED, charge = 0, delay = 0, what = 'taken back', queue = to })
  job.token = job.token + 1
  if session.id then
    plan.tell[session.id] = true
  end
  return true
end)
