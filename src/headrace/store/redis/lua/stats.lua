-- Statistics: summed up as jobs end, so that asking costs the same however many are kept. The arithmetic is that of
-- headrace/stats.py. A day of a queue is a hash {ns}:stat:<day>:<queue>; its fields:
--   wn, wt, wq   how many waits of runs that began that day, their sum and the sum of their squares; w<bucket> how many in a bucket
--   rn, rt, rq   and r<bucket> the same of runs that ended that day
--   retries, failures
--   failed       how many of the jobs that failed that day are failed still
-- And for in and out rates, which are derived from jobs (scripts/lately.lua): of a slot of time a hash {ns}:gone:<slot>; its fields:
--   c<queue>, e<queue>  how many of the jobs that came in it, and that ended in it, are gone
--@include settings

local DAY, LONGEST, GONE_KEPT = 86400000, 68719476735, 120000
local fold, first_day, changed_stats, write_stats
local stats = {}

do -- only these are names outside: a script may have 200

local floor = math.floor
local function bucket_of(length)
  if length < 16 then
    return length > 0 and length or 0
  end
  if length > LONGEST then
    length = LONGEST
  end
  local _, exponent = math.frexp(length)
  local shift = exponent - 4
  return 8 * shift + floor(length / 2 ^ shift)
end

-- What is added to the days of queues: day -> queue -> how many waits (w) and runs (r) of which lengths, retries, failures,
-- and failed.
local day_sums = {}

local function sums_of(queue, day)
  local queues = day_sums[day]
  if not queues then
    queues = {}
    day_sums[day] = queues
  end
  local sums = queues[queue]
  if not sums then
    sums = { w = {}, r = {}, retries = 0, failures = 0, failed = 0 }
    queues[queue] = sums
  end
  return sums
end

-- A job is done. This runs for every job there ever is: what can be done later, once for many of the same length, is.
local last_queue, day_begins, waits, runs
function fold(queue, due, started, finished)
  if queue ~= last_queue or finished < day_begins or finished >= day_begins + DAY then
    local day = floor(finished / DAY)
    local sums = sums_of(queue, day)
    last_queue, day_begins, waits, runs = queue, day * DAY, sums.w, sums.r
  end
  local wait, run = started - due, finished - started
  local on_its_day = started >= day_begins and waits or sums_of(queue, floor(started / DAY)).w
  on_its_day[wait] = (on_its_day[wait] or 0) + 1
  runs[run] = (runs[run] or 0) + 1
end

-- Lengths, summed up: how many, their sum, the sum of their squares, how many in which bucket.
local function tally(lengths)
  local number, total, squares, buckets = 0, 0, 0, {}
  for length, many in pairs(lengths) do
    length = math.min(math.max(length, 0), LONGEST)
    number, total, squares = number + many, total + many * length, squares + many * length * length
    local bucket = bucket_of(length)
    buckets[bucket] = (buckets[bucket] or 0) + many
  end
  return number, total, squares, buckets
end

-- A retry, or a failure; or a failed job has come or, if `by` is -1, gone.
function stats.count(queue, at, what, by)
  local sums = sums_of(queue, floor(at / DAY))
  sums[what] = sums[what] + (by or 1)
end

-- Of jobs that go: queue -> slot -> how many came in it, and ended in it.
local came, ended, counted_since = {}, {}, (floor(now / SLOT) - SLOTS) * SLOT

local function in_slot(queues, queue, at)
  local slots, slot = queues[queue], floor(at / SLOT)
  if not slots then
    slots = {}
    queues[queue] = slots
  end
  slots[slot] = (slots[slot] or 0) + 1
end

-- A job goes that came, and ended if `finished` is given, at these times. (This runs for every job there ever is.)
function stats.gone(queue, created, finished)
  if created >= counted_since then
    in_slot(came, queue, created)
  end
  if finished and finished >= counted_since then
    in_slot(ended, queue, finished)
  end
end

function first_day(name)
  return floor((now - setting(name)) / DAY)
end

-- What to set in a hash in which numbers are added to fields. Reads only.
local function added(key, adds)
  local names, values, is_new = {}, {}, true
  for name in pairs(adds) do
    names[#names + 1] = name
  end
  local before = read_many('HMGET', key, names)
  for i, name in ipairs(names) do
    is_new = is_new and not before[i]
    values[2 * i - 1] = name
    -- Not less than none: what a day knew may have been forgotten before the last of its failed jobs goes.
    values[2 * i] = string.format('%.17g', math.max((before[i] and tonumber(before[i]) or 0) + adds[name], 0))
  end
  return { key = key, values = values, is_new = is_new }
end

-- The fields as they will be: for each key a list to set. Reads only.
function changed_stats()
  local changes, keep, keep_buckets = {}, nil, nil
  for day, queues in pairs(day_sums) do
    keep = keep or first_day('stats-history')
    keep_buckets = keep_buckets or first_day('histogram-history')
    for queue, sums in pairs(queues) do
      local adds = {}
      for _, kind in ipairs({ 'w', 'r' }) do
        if next(sums[kind]) then
          local buckets
          adds[kind .. 'n'], adds[kind .. 't'], adds[kind .. 'q'], buckets = tally(sums[kind])
          for bucket, number in pairs(day >= keep_buckets and buckets or {}) do
            adds[kind .. bucket] = number
          end
        end
      end
      adds.retries = sums.retries > 0 and sums.retries or nil
      adds.failures = sums.failures > 0 and sums.failures or nil
      adds.failed = sums.failed ~= 0 and sums.failed or nil
      if day >= keep and next(adds) then
        local member = string.format('%.0f', day) .. ':' .. queue
        local change = added(PREFIX .. 'stat:' .. member, adds)
        change.day, change.member = day, member
        changes[#changes + 1] = change
        if change.is_new then
          check_type(PREFIX .. 'stats', 'zset')
        end
      end
    end
  end
  local gone = {}
  for kind, queues in pairs({ c = came, e = ended }) do
    for queue, slots in pairs(queues) do
      for slot, number in pairs(slots) do
        gone[slot] = gone[slot] or {}
        gone[slot][kind .. queue] = number
      end
    end
  end
  for slot, adds in pairs(gone) do
    changes[#changes + 1] = added(string.format('%sgone:%.0f', PREFIX, slot), adds)
  end
  return changes
end

function write_stats(changes)
  for _, change in ipairs(changes) do
    bulk('HSET', change.key, change.values)
    if not change.day then
      call('PEXPIRE', change.key, GONE_KEPT)
    elseif change.is_new then
      call('ZADD', PREFIX .. 'stats', change.day, change.member)
    end
  end
end

end
