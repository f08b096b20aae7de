-- stranded: of jobs that look unfinished, which are in no queue and in no headrace worker's hands? Remembers since when.
--
-- ARGV[2]     function
-- ARGV[3...]  numbers
-- Answers     {number, status, milliseconds since it was first seen like that} per stranded job
--@include prelude record

local fn, orphans = ARGV[2], SIDE .. ARGV[2] .. ':orphans'
local at_home = {}
local function note(command, key)
  for _, member in ipairs(call(command, key, 0, -1)) do
    at_home[member:match(':(%d+)$') or member] = true
  end
end
note('ZRANGE', leases_key(fn))
note('ZRANGE', queue_key(fn, 'scheduled'))
for level = 2, 4 do
  note('LRANGE', queue_key(fn, LEVELS[level]))
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
