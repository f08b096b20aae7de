-- delete: remove all trace of jobs; a running one is lost to its session.
--
-- ARGV[2...]  job ids
-- Answers     for each 1 if it was there, else 0
--@include commit queues sessions

check_format(call('HGET', META, 'format'))
local ids = arguments(2)
load_many(ids)
local answer = {}
for i, id in ipairs(ids) do
  local job = find_job(id)
  answer[i] = job and 1 or 0
  if job then
    happened(job, 'deleted')
    remove(job)
  end
end
local worked = work_off()
queues.tell_of_room()
if plan.changed[1] or worked then
  commit(even_when_full)
end
return answer
