-- Acts on jobs by id.
--@include commit queues

-- Has `act` deal with each job that is there: it returns whether it did anything. `first` is the first write (see `commit`). Answers 1
-- or 0 for each.
local function act_on(ids, first, act)
  load_many(ids)
  local answer = {}
  for i, id in ipairs(ids) do
    local job = find_job(id)
    answer[i] = job and act(job) and 1 or 0
  end
  local worked = work_off()
  queues.tell_of_room()
  if plan.changed[1] or worked then
    commit(first)
  end
  return answer
end
