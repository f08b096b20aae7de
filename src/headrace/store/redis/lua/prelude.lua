-- What every script begins with: keys, the clock, and how to give up.
--
-- Where things are. scripts/ has one file for each script: an operation of the store, with its contract at the top. The files beside
-- this one are what scripts include, and each includes what it needs itself, once:
--
--   by step     put take settle admission lanes relations queues sessions schedules find history stats sweep wait
--   records     job (the bytes of a record), plan (what a script is going to write), commit (writes it), plain and asks (plain jobs,
--               and none: the short ways through an exchange), checks (what requests may say), settings,
--               current (that the format is ours)
--   parts       arrivals (all jobs in order), acts (on jobs by id), culprits and links (of relations), expiry (of admission), failing (of stats), hungry (of wait), closing (of
--               sessions), patterns (of queues), sorted (of lanes and relations), take_singly (of take)
--
-- docs/formats/redis.md says what is at each key. All begin with the tag {ns}, so that on a cluster they live in one slot; so do the
-- two kinds of channels: {ns}:wake:<session>, {ns}:ended:<job id>.
--
-- States, flags, formats, limits and sentences that Python has, too, are declared in layout.py: their names are replaced by their
-- values before a script is sent, as are those of constants.
--
-- KEYS are the keys whose names are known beforehand, in this order. ARGV[1] is empty, or a test's clock.
local JOB, META, DUE, LARGE, UNIQUE, SESSIONS, WATCHED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local PREFIX = JOB:sub(1, -4)
local READY_QUEUES = PREFIX .. 'ready_queues'
local ARRIVALS, CONTROL, TICKS = PREFIX .. 'arrivals', PREFIX .. 'control', PREFIX .. 'ticks'
local BLOCK = 256

local ENDED = { [DONE] = KEYS[8], [FAILED] = KEYS[9], [CANCELLED] = KEYS[10] }

local call = redis.call
local pack, unpack_from = struct.pack, struct.unpack
local band, with, bnot = bit.band, bit.bor, bit.bnot

local now, steady
if ARGV[1] == '' then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  steady = now
else
  now, steady = unpack_from('>dd', ARGV[1])
end

-- Nothing has been written when this is called: all checks come before the first write.
local function fail(kind, text)
  error('HEADRACE ' .. kind .. ' ' .. text .. ' .', 0)
end

-- A job's record cannot be read. The store sets that job aside (see scripts/set_aside.lua) and asks again: what is known of it, where it
-- was met, goes along. As hexadecimal digits: an id may be any bytes.
local function fail_damaged(id, queue, arrival)
  local function digits(bytes)
    return (bytes:gsub('.', function(byte)
      return string.format('%02x', byte:byte())
    end))
  end
  fail('DAMAGED', digits(id) .. ',' .. digits(queue or '') .. ',' .. (arrival and string.format('%.0f', arrival) or ''))
end

-- Keys that are known not to be there: one EXISTS has looked for several.
local absent = {}

-- Asked once: nothing changes before the first write.
local types = {}

local function check_type(key, wanted)
  local found = types[key] or absent[key] and 'none' or call('TYPE', key).ok
  types[key] = found
  if found ~= wanted and found ~= 'none' then
    fail('CORRUPT', key .. ' is a ' .. found .. ', not a ' .. wanted)
  end
  return found ~= 'none'
end

-- A table that `makers` has a function for, which fills it when a script first reads it: what only some jobs need costs the others
-- next to nothing.
local makers = {}
local to_be_made = {
  __index = function(made, field)
    setmetatable(made, nil)
    makers[made]()
    return made[field]
  end,
}

local function on_demand()
  return setmetatable({}, to_be_made)
end

-- A command with many arguments, in pieces: Lua cannot pass more than 8,000 at once.
local function bulk(command, key, values)
  local n = #values
  for first = 1, n, 4000 do
    call(command, key, unpack(values, first, math.min(first + 3999, n)))
  end
end

-- The same for reading: the answers in one list.
local function read_many(command, key, names)
  local n = #names
  if n == 0 then
    return {}
  end
  if n <= 4000 then
    return call(command, key, unpack(names))
  end
  local found = {}
  for first = 1, n, 4000 do
    local last = math.min(first + 3999, n)
    local piece = call(command, key, unpack(names, first, last))
    for i = 1, last - first + 1 do
      found[first + i - 1] = piece[i]
    end
  end
  return found
end

-- To one of several lists, one or two values.
local function append(lists, key, value, second)
  local list = lists[key]
  if list then
    local n = #list
    list[n + 1], list[n + 2] = value, second
  else
    lists[key] = { value, second }
  end
end

local function arguments(first)
  local values = {}
  for i = first, #ARGV do
    values[i - first + 1] = ARGV[i]
  end
  return values
end

-- A write that changes nothing and that a server let through which has no memory left: what follows it may then take some.
-- Used where giving work back is the way to have memory again.
local function even_when_full()
  call('DEL', PREFIX .. 'nothing')
end

-- What another version has written may mean something else: a format that is not ours is neither read nor written.
local function check_format(found)
  if found and found ~= FORMAT then
    fail((tonumber(found) or 0) < tonumber(FORMAT) and 'OLDER' or 'NEWER', PREFIX .. '* was written in format ' .. found)
  end
end
