-- What sessions hold, by place (ID:FN): the fields of HELD, function, number, label, and the job's record. Beside it stands a
-- member of the function's leases, which is what any other reaper would go by. Who holds a job is rarely asked, and only of
-- busy ones: the open sessions are asked in turn, so that taking need not write it down.

local HELD = '>BdBHHH'
local LEVEL_NUMBERS = { scheduled = 1, high = 2, normal = 3, low = 4 }

local function pack_held(held)
  return struct.pack(HELD, LEVEL_NUMBERS[held.level], held.request, held.spare and 1 or 0, #held.fn, #held.number, #held.label)
    .. held.fn .. held.number .. held.label .. held.blob
end

local function unpack_held(packed)
  local level, request, spare, f, n, l, at = struct.unpack(HELD, packed)
  local held = { level = LEVELS[level], request = request, spare = spare == 1 }
  held.fn, held.number = packed:sub(at, at + f - 1), packed:sub(at + f, at + f + n - 1)
  held.label, held.blob = packed:sub(at + f + n, at + f + n + l - 1), packed:sub(at + f + n + l)
  return held
end

local AT_ONCE = 1000 -- Lua cannot pass many more arguments than this

local function held_key(id)
  return SIDE .. id .. ':held'
end

local function place_of(fn, number)
  return number .. ':' .. fn
end

-- Of the places named, those that the session holds.
local function read_held(session_id, places)
  local found = {}
  for first = 1, #places, AT_ONCE do
    local last = math.min(first + AT_ONCE - 1, #places)
    local values = call('HMGET', held_key(session_id), unpack(places, first, last))
    for i = first, last do
      local value = values[i - first + 1]
      found[places[i]] = value and unpack_held(value) or nil
    end
  end
  return found
end

local function read_all_held(session_id)
  local found = {}
  local flat = call('HGETALL', held_key(session_id))
  for i = 1, #flat, 2 do
    found[#found + 1] = { flat[i], unpack_held(flat[i + 1]) }
  end
  return found
end

local function write_held(session_id, held)
  call('HSET', held_key(session_id), place_of(held.fn, held.number), pack_held(held))
end

-- Which hand-out it is: token and ref.
local function hand_out_of(held)
  local token, _, _, _, _, ref = struct.unpack('>I4HHddd', held.blob)
  return token, ref
end

-- Who holds a job: session, and what is held; or nothing.
local function holder_of(fn, number)
  local place = place_of(fn, number)
  for _, session_id in ipairs(call('ZRANGE', SESSIONS, 0, -1)) do
    local value = call('HGET', held_key(session_id), place)
    if value then
      return session_id, unpack_held(value)
    end
  end
end

-- The record, wherever it is.
local function current_blob(fn, number)
  local held
  if call('HGET', job_key(fn, number), 'status') == 'busy' then
    local _, found = holder_of(fn, number)
    held = found
  end
  return held and held.blob or read_blob(fn, number)
end

-- Many members of one key, in pieces.
local function in_pieces(command, key, values)
  for first = 1, #values, 2 * AT_ONCE do
    call(command, key, unpack(values, first, math.min(first + 2 * AT_ONCE - 1, #values)))
  end
end

-- Record hand-outs: a list of {place, held}.
local function hold(session_id, list, until_when)
  local places, leases, fn = {}, {}, nil
  local function write()
    in_pieces('HSET', held_key(session_id), places)
    in_pieces('ZADD', leases_key(fn), leases)
    places, leases = {}, {}
  end
  local n = 1
  for _, pair in ipairs(list) do -- those of a function mostly stand together
    local held = pair[2]
    if fn ~= held.fn then
      if fn then write() end
      fn, n = held.fn, 1
    end
    places[n], places[n + 1] = pair[1], pack_held(held)
    leases[n], leases[n + 1] = until_when, held.level .. ':' .. held.number
    n = n + 2
  end
  if fn then write() end
end

-- The reverse.
local function let_go(session_id, list)
  local places, leases, fn = {}, {}, nil
  local function write()
    in_pieces('HDEL', held_key(session_id), places)
    in_pieces('ZREM', leases_key(fn), leases)
    places, leases = {}, {}
  end
  local n = 0
  for _, pair in ipairs(list) do
    local held = pair[2]
    if fn ~= held.fn then
      if fn then write() end
      fn, n = held.fn, 0
    end
    n = n + 1
    places[n], leases[n] = pair[1], held.level .. ':' .. held.number
  end
  if fn then write() end
end

-- Spare hand-outs that have been started are no longer spare.
local function note_started(session_id, refs)
  if not refs[1] then
    return
  end
  local started = {}
  for _, ref in ipairs(refs) do
    started[ref] = true
  end
  for _, pair in ipairs(read_all_held(session_id)) do
    local _, ref = hand_out_of(pair[2])
    if started[ref] then
      pair[2].spare = false
      write_held(session_id, pair[2])
    end
  end
end
