-- Ended jobs that retention has given up, oldest first. Most leave nothing but a record and an entry in an index: those are
-- removed without being parsed. Those that others need stay; how many of them are at the head, as far as that is known, is kept
-- in META: the next step goes on behind them, and begins anew when all have been looked at.

-- The queue of a record that leaves nothing else behind; nil where there is more to it.
local function queue_if_traceless(record, state)
  if state == FAILED or not record or #record < HEAD_SIZE + RUN_SIZE + 4 then
    return nil
  end
  local current, flags = unpack_from('>BH', record)
  if current ~= state or band(flags, HISTORY + HAS_KEY + LARGE_BODY + MORE + RUN) ~= RUN then
    return nil
  end
  if band(flags, STORY) ~= 0 and record:byte(HEAD_SIZE + RUN_SIZE + unpack_from('>I', record, 38) + 1) % 8 ~= 0 then
    return nil
  end
  local high, low = record:byte(64, 65)
  return record:sub(66, 65 + high * 256 + low)
end

-- Of the `given_up` oldest, so many at most. Answers how many are gone, and how many were looked at.
local function purge(state, given_up, most)
  local field = 'kept' .. state
  local before = tonumber(call('HGET', META, field) or 0) or 0
  local first, kept = before < given_up and before or 0, 0
  local ids = call('ZRANGE', ENDED[state], first, math.min(given_up, first + most) - 1)
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
        if band(job.flags, MORE) ~= 0 and relations.is_needed(job) then
          kept = kept + 1
          ids[i] = false
        else
          remove(job)
          purged = purged + 1
        end
      end
    end
  end
  for queue, many in pairs(numbers) do
    count(queue, state, -many)
  end
  if first == 0 and kept == 0 then
    plan.ended_heads[state] = #ids
  else
    for i = 1, #ids do
      if ids[i] then
        append(plan.ended_out, state, ids[i])
      end
    end
  end
  local behind = first + #ids < given_up and first + kept or 0
  if behind ~= before then
    plan.fields[META] = plan.fields[META] or {}
    plan.fields[META][field] = behind > 0 and string.format('%.0f', behind)
  end
  return purged, #ids
end
