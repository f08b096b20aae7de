-- What became of runs. An outcome: {ref, token, id, kind, charge, at (ms, or -1), delay, data, error, group, output, result,
-- began, ended (ms ago, or -1), place}; what is not given is false.

local DONE, AGAIN, FAILED, BROKEN, RELEASED, CRASHED = 0, 1, 2, 3, 4, 5
local ATTEMPT, DEFERRAL = 1, 2
local OK, ALREADY, STALE = 0, 1, 2

-- Not held: recorded before, or none of this session's business?
local function verdict_on_lost(session, outcome)
  local fn, number = locate(outcome[3])
  local record = fn and parse(current_blob(fn, number)) or {}
  local same = record.session == session.id and record.ref == outcome[1] and record.token == outcome[2]
  return same and ALREADY or STALE
end

-- The usual end: only the head of the record changes. What else it says about earlier runs no longer counts.
local function settle_done(held, outcome)
  local blob = held.blob
  local token, attempts, crashes, created, due, ref, started, _, _, s, w, at = struct.unpack(HEAD, blob)
  if outcome[5] == ATTEMPT then attempts = attempts + 1 end
  if outcome[13] >= 0 then started = now - outcome[13] end
  local changed = struct.pack(HEAD, token, attempts, crashes, created, due, ref, started, now - math.max(outcome[14], 0),
    outcome[12], s, w)
  return finish(held.fn, held.number, 'success', outcome[11], changed .. blob:sub(at))
end

-- True if the job was there.
local function settle(held, outcome)
  local kind, charge, output = outcome[4], outcome[5], nil
  if kind == DONE and not outcome[8] then
    return settle_done(held, outcome)
  end
  local fn, number, record = held.fn, held.number, parse(held.blob)
  local cancelling = record.cancelling
  if charge == ATTEMPT then record.attempts = record.attempts + 1 end
  record.deferred = charge == DEFERRAL and (record.deferred or now) or nil
  record.cancelling = nil
  if outcome[8] then record.data = outcome[8] end
  if outcome[13] >= 0 then record.started = now - outcome[13] end
  if kind == DONE then
    record.result, record.finished = outcome[12], now - math.max(outcome[14], 0)
    return finish(fn, number, 'success', outcome[11], build(record))
  end
  if call('EXISTS', job_key(fn, number)) == 0 then
    return false
  end
  if outcome[9] then record.error = outcome[9] end
  if kind == CRASHED then record.crashes = record.crashes + 1 end
  if cancelling then
    record.state, output = 'cancelled', 'cancelled'
  elseif kind == FAILED or kind == BROKEN then
    record.group, output = kind == BROKEN and 'broken' or outcome[10] or '', outcome[11]
  elseif kind == CRASHED and record.crashes >= (record.max or 3) then
    record.group, output = 'crashed', crashed_text(record.crashes)
  end
  if output then
    record.finished = now - math.max(outcome[14], 0)
    return finish(fn, number, 'error', output, build(record))
  end
  if kind == AGAIN then
    if outcome[10] then record.group = outcome[10] end
    call('HSET', job_key(fn, number), 'status', 'idle')
    local due = outcome[6] >= 0 and outcome[6] or now + outcome[7]
    record.due = line_up(fn, number, level_of(record, held.level), due)
    call('PUBLISH', SIDE .. fn .. ':wake', number)
  else
    give_back(fn, number, held.level, math.floor((record.due > 0 and record.due or now) / 1000))
  end
  write_record(fn, number, record)
  return true
end

-- A verdict per outcome.
local function settle_all(session, outcomes)
  local places, verdicts, settled = {}, {}, {}
  for i, outcome in ipairs(outcomes) do
    places[i] = outcome[15]
    if not places[i] then
      local fn, number = locate(outcome[3])
      places[i] = fn and place_of(fn, number) or ''
    end
  end
  local held = read_held(session.id, places)
  for i, outcome in ipairs(outcomes) do
    local mine = held[places[i]]
    local token, ref
    if mine then
      token, ref = hand_out_of(mine)
    end
    if mine and ref == outcome[1] and token == outcome[2] then
      held[places[i]] = nil
      settled[#settled + 1] = { places[i], mine }
      verdicts[i] = settle(mine, outcome) and OK or STALE
    else
      verdicts[i] = mine and STALE or verdict_on_lost(session, outcome)
    end
  end
  let_go(session.id, settled)
  flush_put_back()
  return verdicts
end
