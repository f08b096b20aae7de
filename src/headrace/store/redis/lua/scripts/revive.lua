-- revive: put jobs that have ended back in line, as if they were new, in the order of arrival.
--
-- ARGV[2]     the numbers of the states that they may be in, or 'order': then nothing is revived
-- ARGV[3]     '', or the queue whose line they go to
-- ARGV[4...]  job ids
-- Answers     for each 1 if it was one of these (and no other job has its unique key now), else 0; -1: call again with those. 'order':
--             the arrival number of each, 0 where there is no job
--@include current commit

local ids, arrivals, places, answer = arguments(4), {}, {}, {}
load_many(ids)
for i, id in ipairs(ids) do
  local record = raw[id]
  arrivals[i] = not record and 0 or #record >= HEAD_SIZE and unpack_from('>I6', record, ARRIVAL_AT) or find_job(id).arrival
  places[i] = i
end
if ARGV[2] == 'order' then
  return arrivals
end

local to = ARGV[3] ~= '' and ARGV[3] or nil
checks.text(to or '', 'The queue')

-- One that comes after another of them waits for it.
table.sort(places, function(a, b)
  return arrivals[a] < arrivals[b] or arrivals[a] == arrivals[b] and a < b
end)
local cost = 0 -- in plain jobs
for _, i in ipairs(places) do
  local job = cost < IDS_AT_ONCE and find_job(ids[i])
  answer[i] = cost < IDS_AT_ONCE and 0 or -1
  cost = cost + 1
  if job and job.state >= DONE and ARGV[2]:find(job.state, 1, true) and not is_set_aside(job) and not culprits.key_is_taken(job) then
    answer[i] = 1
    cost = cost + (band(job.flags, MORE) ~= 0 and 3 + math.min(more_of(job).after or 0, PARENTS_AT_ONCE) or 0)
    expiring.drop(job)
    culprits.bring_back(job, now, true, to)
  end
end
local worked = work_off()
if plan.changed[1] or worked then
  commit(even_when_full)
end
return answer
