-- Samples of many jobs at once.

-- Like `Samples.add`, with no more commands than for one sample (and one for each further bucket).
function Batch.add(now, kind, queue, samples)
  local statistics = Qless.Statistics
  local key, bucket_of = 'ql:s:' .. kind .. ':' .. statistics.day_of(now) .. ':' .. queue, statistics.bucket_of
  local known = call('HMGET', key, 'total', 'mean', 'vk')
  local total, mean, squares = stored_number(known[1], 0), stored_number(known[2], 0), stored_number(known[3], 0)
  local buckets, new = {}, false
  local seconds, bucket
  for i = 1, #samples do
    local sample = samples[i]
    local before = mean
    total = total + 1
    mean = total == 1 and sample or before + (sample - before) / total
    squares = total == 1 and 0 or squares + (sample - mean) * (sample - before)
    -- Those that are handed out together have often waited together.
    if math.floor(sample) ~= seconds then
      seconds, bucket = math.floor(sample), bucket_of(sample)
    end
    buckets[bucket] = (buckets[bucket] or 0) + 1
  end
  call('HMSET', key, 'total', total, 'mean', mean, 'vk', squares)
  if not known[1] then
    statistics.forget_histograms(now, kind, queue)
  end
  for bucket, more in pairs(buckets) do
    new = call('HINCRBY', key, bucket, more) == more or new
  end
  if new then
    statistics.expire_later(key)
  end
end
