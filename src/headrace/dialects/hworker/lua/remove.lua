-- remove: take a job away from wherever it is now; perhaps to run it again.
--
-- ARGV[2]     raw job
-- ARGV[3]     1: put it in line again
-- ARGV[4...]  kinds of keys to look at: 1 jobs, 2 progress, 3 broken, 4 failed
-- Answers     1 if it was there, 0 if not
-- Fails       CORRUPT
--@include prelude

check_types()
local raw = ARGV[2]
for i = 4, #ARGV do
  local kind = tonumber(ARGV[i])
  local removed
  if TYPES[kind] == 'list' then
    removed = call('LREM', key(1, kind), 1, raw)
  else
    removed = call('HDEL', key(1, kind), raw)
  end
  if removed == 1 then
    if ARGV[3] == '1' then
      call('LPUSH', key(1, JOBS), raw)
    end
    return 1
  end
end
return 0
