-- get: look at jobs.
--
-- ARGV[2...]  ids: ours, or FN:ID
-- Answers     {function, number, hash, record, score in the scheduled queue or false, 1 if leased, ttl} or false per id
--@include prelude record

local answers = {}
for i = 2, #ARGV do
  local fn, number = locate(ARGV[i])
  local flat = fn and call('HGETALL', job_key(fn, number)) or {}
  answers[i - 1] = false
  if flat[1] then
    local record = call('HGETALL', record_key(fn, number))
    local level = table_of(record).level
    local leased = level and call('ZSCORE', leases_key(fn), level .. ':' .. number)
    answers[i - 1] = { fn, number, flat, record, call('ZSCORE', queue_key(fn, 'scheduled'), number), leased and 1 or 0,
      call('TTL', job_key(fn, number)), now }
  end
end
return answers
