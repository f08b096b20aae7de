-- stranded: of jobs that look unfinished, which are in no queue and in no headrace worker's hands? Remembers since when.
--
-- ARGV[2]     function
-- ARGV[3...]  numbers
-- Answers     {number, status, milliseconds since it was first seen like that} per stranded job
--@include prelude record

local fn, orphans = ARGV[2], SIDE .. ARGV[2] .. ':orphans'
local at_home = {}
for _, number in ipairs(call('ZRANGE', queue_key(fn, 'scheduled'), 0, -1)) do
  at_home[number] = true
end
for level = 2, 4 do
  for _, number in ipairs(call('LRANGE', queue_key(fn, LEVELS[level]), 0, -1)) do
    at_home[number] = true
  end
end
for _, lease in ipairs(call('ZRANGE', leases_key(fn), 0, -1)) do
  at_home[lease:match('(%d+)$')] = true
end
local found = {}
for i = 3, #ARGV do
  local number = ARGV[i]
  local status = call('HGET', job_key(fn, number), 'status')
  if (status == 'idle' or status == 'busy') and not at_home[number] then
    call('ZADD', orphans, 'NX', now, number)
    found[#found + 1] = { number, status, now - tonumber(call('ZSCORE', orphans, number)) }
  else
    call('ZREM', orphans, number)
  end
end
if call('EXISTS', orphans) == 1 then
  call('EXPIRE', orphans, 7 * 86400)
end
return found
