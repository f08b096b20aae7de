-- replace: put a schedule in the place of others, all of it or nothing.
--
-- ARGV[2]  id, ARGV[3] payload, ARGV[4] member, ARGV[5] run time of the new one
-- ARGV[6…] per job to be replaced: id, member. It may be the new one itself, which gets another run time
-- Answers  {now, 1 if it was done, 0 if one of them is gone or the new one is there already}
--@include prelude

check_types()
local id, payload, member, due = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local itself = false
for i = 6, #ARGV, 2 do
  if call('HEXISTS', JOBS, ARGV[i]) == 0 then
    return { digits(now), 0 }
  end
  itself = itself or ARGV[i] == id
end
if not itself and call('HEXISTS', JOBS, id) == 1 then
  return { digits(now), 0 }
end
for i = 6, #ARGV, 2 do
  if ARGV[i] ~= id then
    call('ZREM', NEXT, ARGV[i + 1])
    call('HDEL', JOBS, ARGV[i])
  end
end
call('HSET', JOBS, id, payload)
call('ZADD', NEXT, due, member)
wake()
return { digits(now), 1 }
