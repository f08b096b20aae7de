-- What sessions hold: hand-out -> msgpack {function, number, level, request, spare, label, record}. Beside it stand a member of
-- the function's leases, which is what any other reaper would go by, and in its runs who holds it.

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
      found[refs[i]] = value and cmsgpack.unpack(value) or nil
    end
  end
  return found
end

local function read_all_held(session_id)
  local found = {}
  local flat = call('HGETALL', held_key(session_id))
  for i = 1, #flat, 2 do
    found[#found + 1] = { flat[i], cmsgpack.unpack(flat[i + 1]) }
  end
  return found
end

local function write_held(session_id, ref, held)
  call('HSET', held_key(session_id), ref, cmsgpack.pack(held))
end

-- Who holds a job: session, hand-out, and what is held; or nothing.
local function holder_of(fn, number)
  local ref, session_id = (call('HGET', runs_key(fn), number) or ''):match('^(%d+) (.+)$')
  local value = ref and call('HGET', held_key(session_id), ref)
  if value then
    return session_id, ref, cmsgpack.unpack(value)
  end
end

-- The record, wherever it is.
local function current_record(fn, number)
  local _, _, held = holder_of(fn, number)
  return held and held[7] or read_record(fn, number)
end

-- Many members of one key, in pieces.
local function in_pieces(command, key, values)
  for first = 1, #values, 2 * AT_ONCE do
    call(command, key, unpack(values, first, math.min(first + 2 * AT_ONCE - 1, #values)))
  end
end

local function by_function(list, entries)
  local found = {}
  for _, pair in ipairs(list) do
    local fn = pair[2][1]
    local members = found[fn] or {}
    found[fn] = members
    entries(members, pair[1], pair[2])
  end
  return found
end

-- Record hand-outs: a list of {ref, held}.
local function hold(session_id, list, until_when)
  local places = {}
  for _, pair in ipairs(list) do
    places[#places + 1] = pair[1]
    places[#places + 1] = cmsgpack.pack(pair[2])
  end
  in_pieces('HSET', held_key(session_id), places)
  local leases = by_function(list, function(members, _, held)
    members[#members + 1] = until_when
    members[#members + 1] = held[3] .. ':' .. held[2]
  end)
  local runs = by_function(list, function(members, ref, held)
    members[#members + 1] = held[2]
    members[#members + 1] = ref .. ' ' .. session_id
  end)
  for fn, members in pairs(leases) do
    in_pieces('ZADD', leases_key(fn), members)
    in_pieces('HSET', runs_key(fn), runs[fn])
  end
end

-- The reverse.
local function let_go(session_id, list)
  local refs = {}
  for _, pair in ipairs(list) do
    refs[#refs + 1] = pair[1]
  end
  in_pieces('HDEL', held_key(session_id), refs)
  local leases = by_function(list, function(members, _, held) members[#members + 1] = held[3] .. ':' .. held[2] end)
  local runs = by_function(list, function(members, _, held) members[#members + 1] = held[2] end)
  for fn, members in pairs(leases) do
    in_pieces('ZREM', leases_key(fn), members)
    in_pieces('HDEL', runs_key(fn), runs[fn])
  end
end

-- Spare hand-outs that have been started are no longer spare.
local function note_started(session_id, refs)
  for _, ref in ipairs(refs) do
    local held = read_held(session_id, { digits(ref) })[digits(ref)]
    if held then
      held[5] = false
      write_held(session_id, digits(ref), held)
    end
  end
end
