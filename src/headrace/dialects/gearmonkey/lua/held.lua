-- What sessions hold, by hand-out: the fields of HELD, function, number, label, and the job's record. Beside it stand a member
-- of the function's leases, which is what any other reaper would go by, and in its runs who holds it.

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

local function runs_key(fn)
  return SIDE .. fn .. ':runs'
end

-- Of the hand-outs named, those that the session holds.
local function read_held(session_id, refs)
  local found = {}
  for first = 1, #refs, AT_ONCE do
    local last = math.min(first + AT_ONCE - 1, #refs)
    local values = call('HMGET', held_key(session_id), unpack(refs, first, last))
    for i = first, last do
      local value = values[i - first + 1]
      found[refs[i]] = value and unpack_held(value) or nil
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

local function write_held(session_id, ref, held)
  call('HSET', held_key(session_id), ref, pack_held(held))
end

-- Who holds a job: session, hand-out, and what is held; or nothing.
local function holder_of(fn, number)
  local ref, session_id = (call('HGET', runs_key(fn), number) or ''):match('^(%d+) (.+)$')
  local value = ref and call('HGET', held_key(session_id), ref)
  if value then
    return session_id, ref, unpack_held(value)
  end
end

-- The record, wherever it is.
local function current_blob(fn, number)
  local _, _, held = holder_of(fn, number)
  return held and held.blob or read_blob(fn, number)
end

-- Many members of one key, in pieces.
local function in_pieces(command, key, values)
  for first = 1, #values, 2 * AT_ONCE do
    call(command, key, unpack(values, first, math.min(first + 2 * AT_ONCE - 1, #values)))
  end
end

-- Record hand-outs: a list of {ref, held}.
local function hold(session_id, list, until_when)
  local places, leases, runs, fn = {}, {}, {}, nil
  local function write()
    in_pieces('HSET', held_key(session_id), places)
    in_pieces('ZADD', leases_key(fn), leases)
    in_pieces('HSET', runs_key(fn), runs)
    places, leases, runs = {}, {}, {}
  end
  local n = 1
  for _, pair in ipairs(list) do -- those of a function mostly stand together
    local ref, held = pair[1], pair[2]
    if fn ~= held.fn then
      if fn then write() end
      fn, n = held.fn, 1
    end
    places[n], places[n + 1] = ref, pack_held(held)
    leases[n], leases[n + 1] = until_when, held.level .. ':' .. held.number
    runs[n], runs[n + 1] = held.number, ref .. ' ' .. session_id
    n = n + 2
  end
  if fn then write() end
end

-- The reverse.
local function let_go(session_id, list)
  local refs, leases, runs, fn = {}, {}, {}, nil
  local function write()
    in_pieces('HDEL', held_key(session_id), refs)
    in_pieces('ZREM', leases_key(fn), leases)
    in_pieces('HDEL', runs_key(fn), runs)
    refs, leases, runs = {}, {}, {}
  end
  local n = 0
  for _, pair in ipairs(list) do
    local held = pair[2]
    if fn ~= held.fn then
      if fn then write() end
      fn, n = held.fn, 0
    end
    n = n + 1
    refs[n], leases[n], runs[n] = pair[1], held.level .. ':' .. held.number, held.number
  end
  if fn then write() end
end

-- Spare hand-outs that have been started are no longer spare.
local function note_started(session_id, refs)
  for _, ref in ipairs(refs) do
    local held = read_held(session_id, { digits(ref) })[digits(ref)]
    if held then
      held.spare = false
      write_held(session_id, digits(ref), held)
    end
  end
end
