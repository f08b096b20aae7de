-- How long jobs waited and ran: per queue and day a running mean, the sum of squares about it, and a histogram.
local Samples = {add = nil, bucket_of = nil, key_of = nil}
Qless.Samples = Samples

local DAY = 86400

-- The histogram's field for a sample: seconds below a minute, minutes below an hour, and so on.
function Samples.bucket_of(sample)
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

function Samples.key_of(now, kind, queue)
  return 'ql:s:' .. kind .. ':' .. (now - now % DAY) .. ':' .. queue
end

-- Add a sample of a kind, `wait` or `run`.
function Samples.add(now, kind, queue, sample)
  local key = Samples.key_of(now, kind, queue)
  local known = call('HMGET', key, 'total', 'mean', 'vk')
  local total, mean = tonumber(known[1]), tonumber(known[2])
  if total and mean then
    local new_mean = mean + (sample - mean) / (total + 1)
    local squares = (tonumber(known[3]) or 0) + (sample - new_mean) * (sample - mean)
    call('HMSET', key, 'total', total + 1, 'mean', new_mean, 'vk', squares)
  else
    call('HMSET', key, 'total', '1', 'mean', sample, 'vk', '0')
  end
  if call('HINCRBY', key, Samples.bucket_of(sample), 1) == 1 then
    Qless.Statistics.expire_later(key)
  end
end

return Samples
