-- What every script begins with: the glossary of keys, the clock, and how to give up.
--
-- The protocol's own keys, which peers read and write:
--
--   uid:FN                      string  the last job number given out
--   count:FN                    string  how many workers are registered
--   job:FN:ID                   hash    status, input, output, status:dividend, status:divisor
--   queue:FN:high|normal|low    list    waiting job numbers; new ones on the left, the next one on the right
--   queue:FN:scheduled          zset    job number, score: the second in which it becomes eligible
--   lock:FN:ID                  list    OK, for ten seconds after the end
--   channel:FN                  channel create:ID, start:ID, finish:ID
--
-- Our keys beside them, which peers never look at. What stands last in a name tells its kind, so that a function
-- may have any name:
--
--   headrace:gm:FN:leases       zset    jobs held by headrace workers: member LEVEL:ID, score: until when
--   headrace:gm:FN:workers      zset    sessions registered in count:FN: score: until when
--   headrace:gm:FN:jobs         hash    what the protocol has no field for, of jobs that have not ended: ID -> see record.lua
--   headrace:gm:FN:N:ended      hash    the same of jobs that have; N: the number without its last three digits
--   headrace:gm:FN:orphans      zset    jobs seen in no queue and in nobody's hands: score: since when
--   headrace:gm:FN:wake         channel a job was put back in line (no event of the protocol tells)
--   headrace:gm:ID:id           string  where the job with this id of ours is: FN:ID; kept as long as the job
--   headrace:gm:SESSION:session hash    a session; closed ones stay for a day as tombstones
--   headrace:gm:SESSION:held    hash    what the session holds: ID:FN -> see held.lua
--   headrace:gm:SESSION:told    channel a job of this session was cancelled
--   headrace:gm:sessions        zset    the open sessions: score: until when without a sign of life
--   headrace:gm:functions       set     functions with leases or registered sessions
--   headrace:gm:refs            string  the last hand-out
--   headrace:gm:lock            list    what lock lists are copied from, within one step
--   headrace:gm:arrivals        string  how many jobs with an id of ours were put
--
-- ARGV[1] is empty, or a test's clock. No KEYS: the names follow from the data, as the protocol's own do.
local call = redis.call
local SIDE = 'headrace:gm:'
local SESSIONS, FUNCTIONS, REFS, ARRIVALS = SIDE .. 'sessions', SIDE .. 'functions', SIDE .. 'refs', SIDE .. 'arrivals'
local LEVELS = { 'scheduled', 'high', 'normal', 'low' }
local KEEP_JOB, KEEP_LOCK = '90000', '10' -- seconds: the protocol's 25 hours, and its 10 seconds
local AT_ONCE = 1000 -- Lua cannot pass many more arguments than this

local now, steady
if ARGV[1] == '' then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  steady = now
else
  now, steady = struct.unpack('>dd', ARGV[1])
end

local function digits(value)
  return string.format('%.0f', value)
end

-- Nothing has been written when this is called: all checks come before the first write.
local function fail(kind, text)
  error('HEADRACE ' .. kind .. ' ' .. text .. ' .', 0)
end

local function job_key(fn, number)
  return 'job:' .. fn .. ':' .. number
end

local function queue_key(fn, level)
  return 'queue:' .. fn .. ':' .. level
end

local function leases_key(fn)
  return SIDE .. fn .. ':leases'
end

local function id_key(id)
  return SIDE .. id .. ':id'
end

-- Many members of one key, in pieces. Numbers should be text already: Redis is slow to write them.
local function in_pieces(command, key, values)
  for first = 1, #values, 2 * AT_ONCE do
    call(command, key, unpack(values, first, math.min(first + 2 * AT_ONCE - 1, #values)))
  end
end

local function check_type(key, wanted)
  local found = call('TYPE', key).ok
  if found ~= wanted and found ~= 'none' then
    fail('CORRUPT', key .. ' is a ' .. found .. ', not a ' .. wanted)
  end
end

-- All that is written to for a function, before the first write of a step that may touch it.
local function check_function(fn)
  check_type(queue_key(fn, 'scheduled'), 'zset')
  for i = 2, 4 do
    check_type(queue_key(fn, LEVELS[i]), 'list')
  end
end
