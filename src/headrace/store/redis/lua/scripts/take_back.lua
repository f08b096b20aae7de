-- take_back: take running jobs away from their workers, as if they had been given back.
--
-- ARGV[2...]  job ids
-- Answers     for each 1, or 0 if it does not run
--@include commit queues sessions

check_format(call('HGET', META, 'format'))
local ids = arguments(2)
load_many(ids)
local answer = {}
for i, id in ipairs(ids) do
  local job = find_job(id)
  local runs = job and job.state == RUNNING
  answer[i] = runs and 1 or 0
  if runs then
    local holder = session_of(job.session)
    local session = holder and read_session(holder)
    if not session or session.closed then
      session = { name = '', held = PREFIX .. 'held:' .. (holder or '') }
    end
    end_run(session, job, { kind = K_RELEASED, charge = 0, delay = 0, what = 'taken back' })
    job.token = job.token + 1
    if session.id then
      plan.tell[session.id] = true
    end
  end
end
local worked = work_off()
queues.tell_of_room()
if plan.changed[1] or worked then
  commit(even_when_full)
end
return answer
