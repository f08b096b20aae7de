-- What sessions hold, by place (ID:FN): the fields of HELD, label, hand-out, and the job's record as it was before. Beside it
-- stands a member of the function's leases, which is what any other reaper would go by. Who holds a job is rarely asked, and only
-- of busy ones: the open sessions are asked in turn, so that taking need not write it down.

-- level, request, spare, length of the label
local HELD, HELD_SIZE = '>BdBH', 12
-- when it was taken, token, ref
local HAND_OUT, HAND_OUT_SIZE = '>dI4I6', 18
local LEVEL_NUMBERS = { scheduled = 1, high = 2, normal = 3, low = 4 }

-- What jobs that are handed out together have in common.
local function held_prefix(level, request, spare, label)
  return struct.pack(HELD, LEVEL_NUMBERS[level], request, spare and 1 or 0, #label) .. label
end

-- A session as records name it: lengths of its id and its name, and both.
local function owner_of(id, name)
  return struct.pack('>HH', #id, #name) .. id .. name
end

-- The whole of it; `blob` is the record as of now.
local function unpack_held(session_id, place, packed)
  local level, request, spare, length, at = struct.unpack(HELD, packed)
  local held = { level = LEVELS[level], request = request, spare = spare == 1, label = packed:sub(at, at + length - 1) }
  held.number, held.fn = place:match('^(%d+):(.+)$')
  held.taken, held.token, held.ref, at = struct.unpack(HAND_OUT, packed, at + length)
  local record = parse(packed:sub(at))
  record.started, record.token, record.ref = held.taken, held.token, held.ref
  record.session, record.worker = session_id, call('HGET', SIDE .. session_id .. ':session', 'name') or ''
  held.blob = build(record)
  return held
end

-- As whoever asked for jobs is told of it: see take.lua.
local function hand_out(held)
  return held_prefix(held.level, held.request, held.spare, held.label)
    .. struct.pack(HAND_OUT, held.taken, held.token, held.ref) .. held.blob
end

local function held_key(id)
  return SIDE .. id .. ':held'
end

local function place_of(fn, number)
  return number .. ':' .. fn
end

-- Of each of the places named, what the session holds there, packed; false where it holds nothing.
local function read_held(session_id, places)
  local found, n = {}, #places
  for first = 1, n, AT_ONCE do
    local values = call('HMGET', held_key(session_id), unpack(places, first, math.min(first + AT_ONCE - 1, n)))
    for i = 1, #values do
      found[first + i - 1] = values[i]
    end
  end
  return found
end

local function read_all_held(session_id)
  local found = {}
  local flat = call('HGETALL', held_key(session_id))
  for i = 1, #flat, 2 do
    found[#found + 1] = { flat[i], unpack_held(session_id, flat[i], flat[i + 1]) }
  end
  return found
end

local function write_held(session_id, held)
  call('HSET', held_key(session_id), place_of(held.fn, held.number),
    hand_out(held))
end

-- Who holds a job: session, and what is held; or nothing.
local function holder_of(fn, number)
  local place = place_of(fn, number)
  for _, session_id in ipairs(call('ZRANGE', SESSIONS, 0, -1)) do
    local value = call('HGET', held_key(session_id), place)
    if value then
      return session_id, unpack_held(session_id, place, value)
    end
  end
end

-- The record, wherever it is.
local function current_blob(fn, number)
  if call('HGET', job_key(fn, number), 'status') == 'busy' then
    local _, held = holder_of(fn, number)
    return held and held.blob or read_blob(fn, number)
  end
  return read_blob(fn, number)
end

-- A list per key, made when it is first asked for.
local function list_in(lists, key)
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  return list
end

-- Hand-outs that are over: a list of {place, held}.
local function let_go(session_id, list)
  local places, leases = {}, {}
  for i, pair in ipairs(list) do
    local held = pair[2]
    local mine = list_in(leases, held.fn)
    places[i], mine[#mine + 1] = pair[1], held.level .. ':' .. held.number
  end
  in_pieces('HDEL', held_key(session_id), places)
  for fn, members in pairs(leases) do
    in_pieces('ZREM', leases_key(fn), members)
  end
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
    if started[pair[2].ref] then
      pair[2].spare = false
      write_held(session_id, pair[2])
    end
  end
end
