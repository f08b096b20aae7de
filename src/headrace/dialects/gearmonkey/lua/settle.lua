-- What became of runs. The usual end (a job that we know the place of is done, and leaves no data) is the byte USUAL and
-- function, number, hand-out (token and ref), charge (0 or 1), began and ended (ms ago), result, output. Any other is another byte and msgpack:
-- {ref, token, id, kind, charge, at (ms, or -1), delay, data, error, group, output, result, began, ended (ms ago, or -1), place};
-- what is not given is false.

local USUAL = 1
local MANY, LOCK = 20, SIDE .. 'lock' -- for so many a lock list is made once and copied

local DONE, AGAIN, FAILED, BROKEN, RELEASED, CRASHED = 0, 1, 2, 3, 4, 5
local ATTEMPT, DEFERRAL = 1, 2
local OK, ALREADY, STALE = 0, 1, 2

-- Not held: recorded before, or none of this session's business?
local function verdict_on_lost(session, place, outcome)
  local number, fn = place:match('^(%d+):(.+)$')
  local record = fn and parse(current_blob(fn, number)) or {}
  local same = record.session == session.id and record.ref == outcome[1] and record.token == outcome[2]
  return same and ALREADY or STALE
end

-- True if the job was there.
local function settle(held, outcome)
  local kind, charge, output = outcome[4], outcome[5], nil
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

-- Reads the outcomes: lists of what the usual ends say, and a table for each of the others.
local function read_outcomes(sent)
  local all = { places = {}, fns = {}, numbers = {}, hand_outs = {}, charges = {}, begans = {}, endeds = {},
    results = {}, outputs = {}, others = {} }
  local places, fns, numbers, hand_outs, charges, begans, endeds, results, outputs = all.places, all.fns, all.numbers,
    all.hand_outs, all.charges, all.begans, all.endeds, all.results, all.outputs
  local at, i, size, unpack_from = 1, 0, #sent, struct.unpack
  while at <= size do
    i = i + 1
    if sent:byte(at) == USUAL then
      local fn, number
      fn, number, hand_outs[i], charges[i], begans[i], endeds[i], results[i], outputs[i], at =
        unpack_from('>Hc0Hc0c10BddBIc0', sent, at + 1)
      fns[i], numbers[i], places[i] = fn, number, number .. ':' .. fn
    else
      local packed
      packed, at = unpack_from('>Ic0', sent, at + 1)
      local outcome = cmsgpack.unpack(packed)
      local place = outcome[15]
      if not place then
        local fn, number = locate(outcome[3])
        place = fn and place_of(fn, number) or ''
      end
      places[i], all.others[i] = place, outcome
    end
  end
  return all
end

-- What a record becomes at the usual end: the hand-out, attempts, times, result and owner change, the rest is copied as bytes.
-- What it says about earlier runs no longer counts. `at`: where the hand-out begins. Answers with the map within it, too.
local function ended_blob(packed, at, charge, times, result, owner)
  local record = at + HAND_OUT_SIZE
  local high, low = packed:byte(record + 4, record + 5)
  local attempts = high * 256 + low + charge
  local s, t, w, x = packed:byte(record + 49, record + 52)
  local rest = packed:sub(record + HEAD_SIZE + (s + w) * 256 + t + x, -7)
  return packed:sub(at + 8, at + 11) .. string.char(math.floor(attempts / 256), attempts % 256)
    .. packed:sub(record + 6, record + 31) .. times .. string.char(result) .. owner .. rest .. packed:sub(at + 12, at + 17), rest
end

-- A verdict per outcome.
local function settle_all(session, sent)
  local all = read_outcomes(sent)
  local places, others = all.places, all.others
  local found = read_held(session.id, places)
  local verdicts, settled, seen = {}, {}, {}
  local gone, leases, ended, over, n = {}, {}, {}, {}, 0
  local names, owner, began, ended_ago, times = {}, owner_of(session.id, session.name), nil, nil, nil
  local like = #places >= MANY and LOCK
  if like then
    call('DEL', like)
    call('LPUSH', like, 'OK')
    call('EXPIRE', like, KEEP_LOCK)
  end
  for i = 1, #places do
    local place, packed, other = places[i], found[i], others[i]
    local at = packed and HELD_SIZE + 1 + packed:byte(11) * 256 + packed:byte(12)
    if seen[place] then
      verdicts[i] = seen[place] == (other and struct.pack('>I4I6', other[2], other[1]) or all.hand_outs[i]) and ALREADY or STALE
    elseif packed and not other and packed:sub(at + 8, at + 17) == all.hand_outs[i] then
      local fn, number = all.fns[i], all.numbers[i]
      seen[place], n = all.hand_outs[i], n + 1
      gone[n] = place
      local members = list_in(leases, fn)
      members[#members + 1] = LEVELS[packed:byte(1)] .. ':' .. number
      local known_as = names[fn]
      if not known_as then
        known_as = names_of(fn)
        names[fn] = known_as
      end
      if complete(known_as, number, 'success', all.outputs[i], like) then
        if all.begans[i] ~= began or all.endeds[i] ~= ended_ago then
          began, ended_ago = all.begans[i], all.endeds[i]
          times = struct.pack('>dd', now - began, now - ended_ago)
        end
        local records, number_of = list_in(ended, ended_key(fn, number)), list_in(over, fn)
        local m = #records
        local blob, rest = ended_blob(packed, at, all.charges[i], times, all.results[i], owner)
        records[m + 1], records[m + 2] = number, blob
        expire_id(id_in(rest))
        number_of[#number_of + 1] = number
        verdicts[i] = OK
      else
        verdicts[i] = STALE
      end
    else
      local mine = packed and unpack_held(session.id, place, packed)
      local outcome = other or { struct.unpack(REF, all.hand_outs[i], 5), struct.unpack('>I4', all.hand_outs[i]) }
      if other and mine and mine.ref == outcome[1] and mine.token == outcome[2] then
        seen[place] = struct.pack('>I4I6', mine.token, mine.ref)
        settled[#settled + 1] = { place, mine }
        verdicts[i] = settle(mine, outcome) and OK or STALE
      else
        verdicts[i] = mine and STALE or verdict_on_lost(session, place, outcome)
      end
    end
  end
  if like then
    call('DEL', like)
  end
  in_pieces('HDEL', held_key(session.id), gone)
  for fn, members in pairs(leases) do
    in_pieces('ZREM', leases_key(fn), members)
  end
  for key, records in pairs(ended) do
    in_pieces('HSET', key, records)
    call('EXPIRE', key, KEEP_JOB)
  end
  for fn, numbers in pairs(over) do
    in_pieces('HDEL', jobs_key(fn), numbers)
  end
  let_go(session.id, settled)
  flush_put_back()
  return verdicts
end
