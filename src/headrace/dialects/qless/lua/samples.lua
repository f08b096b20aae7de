-- How long jobs waited and ran: per queue and day a running mean, the sum of squares about it, and a histogram.
local Samples = {}
Qless.Samples = Samples

local DAY = 86400

-- The histogram's field for a sample: seconds below a minute, minutes below an hour, and so on.
local function bucket_of(sample)
  local seconds = floor(sample)
  if seconds < 60 then
    return string.format('s%.0f', seconds)
  elseif seconds < 3600 then
    return 'm' .. floor(seconds / 60)
  elseif seconds < DAY then
    return 'h' .. floor(seconds / 3600)
  end
  return string.format('d%.0f', floor(seconds / DAY))
end

-- Add samples of one kind (`wait` or `run`).
function Samples.add(now, kind, queue, samples)
  local key = 'ql:s:' .. kind .. ':' .. string.format('%.0f', now - now % DAY) .. ':' .. queue
  local total, mean, squares = unpack(call('HMGET', key, 'total', 'mean', 'vk'))
  local new = not total
  total, mean, squares = tonumber(total) or 0, tonumber(mean) or 0, tonumber(squares) or 0
  local buckets = {}
  for _, sample in ipairs(samples) do
    total = total + 1
    if total == 1 then
      mean, squares = sample, 0
    else
      local before = mean
      mean = mean + (sample - before) / total
      squares = squares + (sample - mean) * (sample - before)
    end
    local bucket = bucket_of(sample)
    buckets[bucket] = (buckets[bucket] or 0) + 1
  end
  call('HMSET', key, 'total', total, 'mean', mean, 'vk', squares)
  for bucket, more in pairs(buckets) do
    new = call('HINCRBY', key, bucket, more) == more or new
  end
  if new then
    Qless.Statistics.expire_later(key)
  end
end

return Samples
