-- How long jobs waited and ran: per queue and day a running mean, the sum of squares about it, and a histogram.

-- Add a sample of a kind, `wait` or `run`.
function Samples.add(now, kind, queue, sample)
  local key = string.format('ql:s:%s:%d:%s', kind, now - now % 86400, queue)
  local known = call('HMGET', key, 'total', 'mean', 'vk')
  local total, mean = stored_number(known[1]), stored_number(known[2])
  if total and mean then
    local new_mean = mean + (sample - mean) / (total + 1)
    local squares = (stored_number(known[3], 0)) + (sample - new_mean) * (sample - mean)
    call('HMSET', key, 'total', total + 1, 'mean', new_mean, 'vk', squares)
  else
    call('HMSET', key, 'total', '1', 'mean', sample, 'vk', '0')
    Qless.Statistics.forget_histograms(now, kind, queue)
  end
  -- Most are short.
  local bucket = sample >= 0 and sample < 60 and string.format('s%d', sample) or Qless.Statistics.bucket_of(sample)
  if call('HINCRBY', key, bucket, 1) == 1 then
    Qless.Statistics.expire_later(key)
  end
end
