-- revive: put failed or cancelled jobs back in line, as if they were new.
--
-- ARGV[2...]  job ids
-- Answers     for each 1 if it was one of these (and nobody else has its unique key now), else 0
--@include commit

check_format(call('HGET', META, 'format'))
-- A job is revived by hand: what it came after counts again where that has not come to an end.
local function drop_ended(job)
  local more = more_of(job)
  if not more.after then
    return
  end
  local parents = relations.parents_of(job)
  load_many(parents)
  for _, id in ipairs(parents) do
    local parent = find_job(id)
    if not parent or parent.state >= DONE then
      relations.part(job, id)
    end
  end
  relations.forget(PREFIX .. 'culprits:' .. job.id)
  more.delay = nil
  keep_more(job, more)
end

local ids = arguments(2)
load_many(ids)
local answer = {}

-- In the order of arrival: one that comes after another of them waits for it.
local places = {}
for i, id in ipairs(ids) do
  answer[i] = 0
  if find_job(id) then
    places[#places + 1] = i
  end
end
table.sort(places, function(a, b)
  local first, second = find_job(ids[a]).arrival, find_job(ids[b]).arrival
  return first < second or first == second and a < b
end)
for _, i in ipairs(places) do
  local job = find_job(ids[i])
  if job.state > DONE and not is_set_aside(job) and not culprits.key_is_taken(job) then
    answer[i] = 1
    drop_ended(job)
    culprits.bring_back(job, now)
  end
end
local worked = work_off()
if plan.changed[1] or worked then
  commit(even_when_full)
end
return answer
