-- What every script begins with: the glossary of keys, the clock, and how a progress record is given up.
--
-- Four keys per queue, in this order, for as many queues as the request is about:
--
--   hworker-jobs-NAME       list    waiting raw jobs: new ones at the left, the next to run at the right
--   hworker-progress-NAME   hash    raw job being run -> the time it was taken, or last seen
--   hworker-broken-NAME     hash    entry that could not be decoded -> the time that was noticed
--   hworker-failed-NAME     list    raw jobs that ended in failure, newest at the left
--
-- Raw jobs are bytes and are never decoded here. ARGV[1] is empty, or a test's clock in microseconds.
local call = redis.call
local JOBS, PROGRESS, BROKEN, FAILED = 1, 2, 3, 4
local TYPES = { 'list', 'hash', 'hash', 'list' }
local PHANTOM = 'false'

local seconds, micros
if ARGV[1] == '' then
  local time = call('TIME')
  seconds, micros = tonumber(time[1]), tonumber(time[2])
else
  local given = tonumber(ARGV[1])
  seconds = math.floor(given / 1000000)
  micros = given - seconds * 1000000
end

-- A time as all peers read it: a JSON string, quotes included, with six digits after the point.
-- (Days to a date by counting years from March, so that the leap day comes last.)
local function literal()
  local days = math.floor(seconds / 86400)
  local rest = seconds - days * 86400
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year = math.floor(
    (of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096)) / 365
  )
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * month + 2) / 5) + 1
  year = year + era * 400
  month = month + 3
  if month > 12 then
    month = month - 12
    year = year + 1
  end
  return string.format(
    '"%04d-%02d-%02dT%02d:%02d:%02d.%06dZ"',
    year, month, day, math.floor(rest / 3600), math.floor(rest / 60) % 60, rest % 60, micros
  )
end

local function instant()
  return string.format('%.0f', seconds * 1000000 + micros)
end

-- The key of the given kind of the queue with this number (from 1).
local function key(queue, kind)
  return KEYS[(queue - 1) * 4 + kind]
end

-- Nothing can fail after the first write: a key that is not ours is found before.
local function check_types()
  for i, name in ipairs(KEYS) do
    local found = call('TYPE', name).ok
    local wanted = TYPES[(i - 1) % 4 + 1]
    if found ~= wanted and found ~= 'none' then
      error('HEADRACE CORRUPT ' .. name .. ' is a ' .. found .. ', not a ' .. wanted .. ' .', 0)
    end
  end
end

-- Take a job out of progress, but only our hand-out of it: the value written last tells it from any other.
-- Comes first, and guards whatever follows: who finds nothing to delete writes nothing.
local function leave_progress(queue, raw, value)
  local progress = key(queue, PROGRESS)
  return call('HGET', progress, raw) == value and call('HDEL', progress, raw) == 1
end
