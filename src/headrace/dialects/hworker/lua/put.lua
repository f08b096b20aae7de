-- put: new jobs to the left end of their lists, all of them or none.
--
-- ARGV[2...]  pairs: number of the queue, raw job
-- Answers     the time in microseconds
-- Fails       CORRUPT
--@include prelude

check_types()
for i = 2, #ARGV, 2 do
  call('LPUSH', key(tonumber(ARGV[i]), JOBS), ARGV[i + 1])
end
return instant()
