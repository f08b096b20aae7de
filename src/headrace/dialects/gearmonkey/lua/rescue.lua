-- rescue: put a stranded job back in line as the next one to run; or take the steps that a dying worker left out.
--
-- ARGV[2]  function
-- ARGV[3]  number
-- Answers  1 if it was done, 0 if there was nothing to do any more
--@include prelude record

local fn, number = ARGV[2], ARGV[3]
local status = call('HGET', job_key(fn, number), 'status')
if status == 'success' or status == 'error' then
  if call('TTL', job_key(fn, number)) ~= -1 then
    return 0
  end
  local output = call('HGET', job_key(fn, number), 'output') or ''
  finish(fn, number, status, output, read_blob(fn, number))
  return 1
end
check_function(fn)
local held = call('ZSCORE', queue_key(fn, 'scheduled'), number)
for level = 1, 4 do
  held = held or call('ZSCORE', leases_key(fn), LEVELS[level] .. ':' .. number)
  held = held or level > 1 and call('LPOS', queue_key(fn, LEVELS[level]), number)
end
if held or (status ~= 'idle' and status ~= 'busy') then
  return 0
end
local record = read_record(fn, number)
give_back(fn, number, level_of(record, nil))
flush_put_back()
call('ZREM', SIDE .. fn .. ':orphans', number)
return 1
