-- get: look at jobs.
--
-- ARGV[2...]  ids: ours, or FN:ID
-- Answers     {function, number, hash, record, score in the scheduled queue or false, now} or false per id
--@include prelude record held

local answers = {}
for i = 2, #ARGV do
  local fn, number = locate(ARGV[i])
  local flat = fn and call('HGETALL', job_key(fn, number)) or {}
  answers[i - 1] = false
  if flat[1] then
    answers[i - 1] = { fn, number, flat, current_blob(fn, number),
      call('ZSCORE', queue_key(fn, 'scheduled'), number), now }
  end
end
return answers
