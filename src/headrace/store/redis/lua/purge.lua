-- Ended jobs that retention has given up, oldest first. Most leave nothing but a record and an entry in an index: those are
-- removed without being parsed.
local TRACES = HISTORY + HAS_KEY + LARGE_BODY + MORE

-- The queue of a record that leaves nothing else behind; nil where there is more to it.
local function queue_if_traceless(record, state)
  if state == FAILED or not record or #record < HEAD_SIZE + RUN_SIZE + 4 then
    return nil
  end
  local current, flags = unpack_from('>BH', record)
  if current ~= state or band(flags, TRACES + RUN) ~= RUN then
    return nil
  end
  if band(flags, STORY) ~= 0 and record:byte(HEAD_SIZE + RUN_SIZE + unpack_from('>I', record, 38) + 1) % 8 ~= 0 then
    return nil
  end
  local high, low = record:byte(64, 65)
  return record:sub(66, 65 + high * 256 + low)
end

local function purge(state, number)
  local ids = call('ZRANGE', ENDED[state], 0, number - 1)
  load_many(ids)
  local numbers, purged, removed = {}, 0, plan.removed
  for i = 1, #ids do
    local id = ids[i]
    local queue = plan.jobs[id] == nil and queue_if_traceless(raw[id], state)
    if queue then
      numbers[queue] = (numbers[queue] or 0) + 1
      if state == DONE then
        local record = raw[id]
        local due = unpack_from('>I6', record, 14)
        local started, finished = unpack_from('>I6I6', record, 52)
        fold(queue, due, started, finished)
      end
      removed[#removed + 1] = id
      raw[id] = false
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
