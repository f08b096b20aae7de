-- revive: put failed or cancelled jobs back in line, as if they were new.
--
-- ARGV[2]     0 or, where a step before has not seen to all of these, the arrival number that it has answered
-- ARGV[3...]  job ids
-- Answers     {the arrival number to go on behind ('': that was all), for each 1 if it was one of these (and nobody else has its
--             unique key now) and has been revived by this step, else 0}
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

local behind, ids = tonumber(ARGV[2]), arguments(3)
load_many(ids)
local answer, arrivals, places = { '' }, {}, {}

-- In the order of arrival: one that comes after another of them waits for it.
for i, id in ipairs(ids) do
  answer[i + 1] = 0
  local record = raw[id]
  arrivals[i] = record and (#record >= HEAD_SIZE and unpack_from('>I6', record, ARRIVAL_AT) or find_job(id).arrival)
  if record and arrivals[i] > behind then
    places[#places + 1] = i
  end
end
table.sort(places, function(a, b)
  return arrivals[a] < arrivals[b] or arrivals[a] == arrivals[b] and a < b
end)
local cost = 0 -- in plain jobs
for number, i in ipairs(places) do
  if cost >= IDS_AT_ONCE and arrivals[i] ~= arrivals[places[number - 1]] then
    answer[1] = string.format('%.0f', arrivals[places[number - 1]])
    break
  end
  local job = find_job(ids[i])
  cost = cost + (band(job.flags, MORE) ~= 0 and 4 or 1)
  if job.state > DONE and not is_set_aside(job) and not culprits.key_is_taken(job) then
    answer[i + 1] = 1
    drop_ended(job)
    expiring.drop(job)
    culprits.bring_back(job, now)
  end
end
local worked = work_off()
if plan.changed[1] or worked then
  commit(even_when_full)
end
return answer
