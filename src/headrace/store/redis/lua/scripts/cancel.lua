-- cancel: what waits or has failed is cancelled at once, what runs is asked to stop.
--
-- ARGV[2...]  job ids
-- Answers     for each 1 if it is cancelled or will be told, else 0
--@include commit

check_format(call('HGET', META, 'format'))
local ids = arguments(2)
load_many(ids)
local answer = {}
for i, id in ipairs(ids) do
  local job = find_job(id)
  if not job or job.state == DONE then
    answer[i] = 0
  else
    answer[i] = 1
    if job.state == RUNNING then
      ask_to_stop(job)
    elseif job.state ~= CANCELLED then
      if job.state == FAILED then
        remember_end(job)
      end
      leave_state(job)
      finish(job, CANCELLED, now)
      happened(job, 'cancelled')
    end
  end
end
local worked = work_off()
if plan.changed[1] or worked then
  commit(even_when_full)
end
return answer
