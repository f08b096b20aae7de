-- Statistics per queue and day: how long jobs waited and ran, how many failed or lost their locks.

local DAY = 86400

function Statistics.day_of(time)
  return string.format('%.0f', time - (time % DAY))
end

-- The histogram's field for a sample: seconds below a minute, minutes below an hour, and so on.
function Statistics.bucket_of(sample)
  local seconds = math.floor(sample)
  if seconds < 60 then
    return 's' .. seconds
  elseif seconds < 3600 then
    return 'm' .. math.floor(seconds / 60)
  elseif seconds < DAY then
    return 'h' .. math.floor(seconds / 3600)
  end
  return 'd' .. math.floor(seconds / DAY)
end

-- Statistics go when `stats-history` days (and one to be sure) have passed since they were last added to in a new way.
-- It is a relative expiry: the caller's clock and the server's need not agree.
function Statistics.expire_later(key)
  local days = option(call('HGET', 'ql:config', 'stats-history'), 30)
  if days >= 0 then
    call('EXPIRE', key, math.floor((days + 1) * DAY))
  end
end

-- The first day whose histograms are kept, as of `now`.
local function first_with_histogram(now)
  local days = option(call('HGET', 'ql:config', 'histogram-history'), 7)
  return days < 0 and -math.huge or tonumber(Statistics.day_of(now - days * DAY))
end

local GAP = 7
local SUMS = {total = true, mean = true, vk = true}

-- A queue's first sample of a day: histograms that are older than `histogram-history` says go, their sums stay. A queue that
-- was idle for longer than GAP days leaves some, which no report shows and `stats-history` ends.
function Statistics.forget_histograms(now, kind, queue)
  local first = first_with_histogram(now)
  for back = 1, first > -math.huge and GAP or 0 do
    local key = string.format('ql:s:%s:%.0f:%s', kind, first - back * DAY, queue)
    local bars = {}
    for _, field in ipairs(call('HKEYS', key)) do
      if not SUMS[field] then
        bars[#bars + 1] = field
      end
    end
    Qless.Values.call_with('HDEL', key, bars)
  end
end

-- Add to a counter: `failures`, `failed` or `retries`. `time` says which day's.
function Statistics.count(time, queue, counter, change)
  local key = 'ql:s:stats:' .. Statistics.day_of(time) .. ':' .. queue
  if call('HINCRBY', key, counter, change) == change then
    Statistics.expire_later(key)
  end
end

-- A job that counted as failed does so no longer. (The day and the queue are those of its failure; what was counted then
-- may be forgotten by now.)
function Statistics.no_longer_failed(queue, failure)
  local when = stored_number(failure.when)
  if when and queue and queue ~= '' then
    local key = 'ql:s:stats:' .. Statistics.day_of(when) .. ':' .. queue
    if stored_number(call('HGET', key, 'failed'), 0) > 0 then
      call('HINCRBY', key, 'failed', -1)
    end
  end
end

local function fields_of_histogram()
  local fields = {}
  for _, part in ipairs({{'s', 0, 59}, {'m', 1, 59}, {'h', 1, 23}, {'d', 1, 6}}) do
    for i = part[2], part[3] do
      fields[#fields + 1] = part[1] .. i
    end
  end
  return fields
end

local function summary(key, fields, with_histogram)
  local total, mean, squares = unpack(call('HMGET', key, 'total', 'mean', 'vk'))
  local count, histogram = stored_number(total, 0), {}
  for i, number_of_jobs in ipairs(call('HMGET', key, unpack(fields))) do
    histogram[i] = with_histogram and stored_number(number_of_jobs, 0) or 0
  end
  return {
    count = count,
    mean = stored_number(mean, 0),
    std = count > 1 and math.sqrt((stored_number(squares, 0)) / (count - 1)) or 0,
    histogram = histogram,
  }
end

-- All there is to say about a queue on the day of `date`.
function Statistics.report(now, queue, date)
  local tail = ':' .. Statistics.day_of(date) .. ':' .. queue
  local with_histogram = tonumber(Statistics.day_of(date)) >= first_with_histogram(now)
  local fields = fields_of_histogram()
  local retries, failed, failures = unpack(call('HMGET', 'ql:s:stats' .. tail, 'retries', 'failed', 'failures'))
  return {
    retries = stored_number(retries, 0),
    failed = stored_number(failed, 0),
    failures = stored_number(failures, 0),
    wait = summary('ql:s:wait' .. tail, fields, with_histogram),
    run = summary('ql:s:run' .. tail, fields, with_histogram),
  }
end
