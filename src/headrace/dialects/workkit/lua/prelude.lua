-- What every script begins with.
--
-- KEYS[1]  S:jobs   hash        job id -> payload, JSON: a job exists while it is here
-- KEYS[2]  S:next   sorted set  {"id":"<job id>"} -> next run, milliseconds since 1970; while it runs: the end of its lease
-- ARGV[1]  a test's clock in milliseconds; empty: the server's
--
-- There is no third key. S:wake is a channel, on which nothing but "look" is said. Scripts have no rollback: whatever can
-- fail (a key of another type, above all) is read before anything is written.

local call = redis.call
local JOBS, NEXT = KEYS[1], KEYS[2]
local OK, STALE, LATER, AS_WISHED, GONE = 0, 2, 3, 4, 5

local function server_time()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local now = tonumber(ARGV[1]) or server_time()

local function digits(number)
  return string.format('%.0f', number)
end

local function check_types()
  call('HLEN', JOBS)
  call('ZCARD', NEXT)
end

-- Wakes sleeping listeners. A user who may not publish loses speed, nothing else.
local function wake()
  redis.pcall('PUBLISH', string.sub(NEXT, 1, -5) .. 'wake', '')
end
