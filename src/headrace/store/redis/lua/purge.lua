-- Ended jobs that retention has given up, oldest first. Most leave nothing but a record and an entry in an index: those are
-- removed without being parsed.
local TRACES = HISTORY + HAS_KEY + LARGE_BODY + MORE

local function leaves_no_trace(record, state)
  if state == FAILED or not record or #record < HEAD_SIZE + RUN_SIZE + 4 then
    return false
  end
  local current, flags = unpack_from('>BH', record)
  if current ~= state or band(flags, TRACES) ~= 0 or band(flags, RUN) == 0 then
    return false
  end
  local story = HEAD_SIZE + RUN_SIZE + unpack_from('>I', record, 38) + 1
  return band(flags, STORY) == 0 or record:byte(story) == 0
end

local function purge(state, number)
  local ids = call('ZRANGE', ENDED[state], 0, number - 1)
  load_many(ids)
  local numbers, purged = {}, 0
  for _, id in ipairs(ids) do
    if plan.jobs[id] == nil and leaves_no_trace(raw[id], state) then
      local record = raw[id]
      local queue = record:sub(66, 65 + record:byte(64) * 256 + record:byte(65))
      numbers[queue] = (numbers[queue] or 0) + 1
      plan.removed[#plan.removed + 1] = id
      purged = purged + 1
    else
      local job = find_job(id)
      if job and job.state == state then
        remove(job)
        purged = purged + 1
      end
    end
  end
  for queue, many in pairs(numbers) do
    count(queue, state, -many)
  end
  plan.ended_heads[state] = #ids
  return purged
end
