-- renew: say that jobs in progress are alive, by writing the present time; only where the record is still ours.
--
-- ARGV[2]     1: refresh; 0: only look
-- ARGV[3...]  threes: number of the queue, raw job, the value that its progress record must have
-- Answers     {time in microseconds, the value written, a byte per job (1 ours, 0 lost)}
-- Fails       CORRUPT
--@include prelude

check_types()
local now = literal()
local held = {}
for i = 3, #ARGV, 3 do
  local progress = key(tonumber(ARGV[i]), PROGRESS)
  local ours = call('HGET', progress, ARGV[i + 1]) == ARGV[i + 2]
  if ours and ARGV[2] == '1' then
    call('HSET', progress, ARGV[i + 1], now)
  end
  held[#held + 1] = ours and '1' or '0'
end
return { instant(), now, table.concat(held) }
