-- watch: has a job come to its end, or is it gone?
--
-- ARGV[2]  id
-- Answers  1 or 0
--@include prelude record

local fn, number = locate(ARGV[2])
local status = fn and call('HGET', job_key(fn, number), 'status')
return (status == 'idle' or status == 'busy') and 0 or 1
