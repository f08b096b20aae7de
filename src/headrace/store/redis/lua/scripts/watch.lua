-- watch: a client waits for the end of a job. To be repeated while the wait lasts.
--
-- ARGV[2]  job id
-- ARGV[3]  for how many milliseconds
-- Answers  1 if the job has ended, or is not there; else 0
--@include job

check_type(WATCHED, 'zset')
local record = call('HGET', JOB, ARGV[2])
if not record or parse(ARGV[2], record).state >= DONE then
  return 1
end
call('ZADD', WATCHED, now + ARGV[3], ARGV[2])
return 0
