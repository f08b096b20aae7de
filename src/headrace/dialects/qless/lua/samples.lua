-- How long jobs waited and ran: per queue and day a running mean, the sum of squares about it, and a histogram.
local Samples = {}
Qless.Samples = Samples

local DAY = 86400

-- The histogram's field for a sample: seconds below a minute, minutes below an hour, and so on.
local function bucket_of(sample)
  local seconds = floor(sample)
  if seconds < 60 then
    return 's' .. seconds
  elseif seconds < 3600 then
    return 'm' .. floor(seconds / 60)
  elseif seconds < DAY then
    return 'h' .. floor(seconds / 3600)
  end
  return 'd' .. floor(seconds / DAY)
end

-- Add samples of one kind (`wait` or `run`).
function Samples.add(now, kind, queue, samples)
  local key = 'ql:s:' .. kind .. ':' .. string.format('%.0f', now - now % DAY) .. ':' .. queue
  local known = call('HMGET', key, 'total', 'mean', 'vk')
  local new = not known[1]
  local total, mean, squares = tonumber(known[1]) or 0, tonumber(known[2]) or 0, tonumber(known[3]) or 0
  local buckets, bucket = nil, bucket_of(samples[1])
  for i = 1, #samples do
    local sample = samples[i]
    total = total + 1
    if total == 1 then
      mean, squares = sample, 0
    else
      local before = mean
      mean = mean + (sample - before) / total
      squares = squares + (sample - mean) * (sample - before)
    end
    if i > 1 then
      buckets = buckets or {[bucket] = 1}
      bucket = bucket_of(sample)
      buckets[bucket] = (buckets[bucket] or 0) + 1
    end
  end
  call('HMSET', key, 'total', total, 'mean', mean, 'vk', squares)
  for name, more in pairs(buckets or {[bucket] = 1}) do
    new = call('HINCRBY', key, name, more) == more or new
  end
  if new then
    Qless.Statistics.expire_later(key)
  end
end

return Samples
