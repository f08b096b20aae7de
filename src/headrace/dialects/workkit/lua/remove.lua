-- remove: jobs, whatever their state. Whoever runs one will notice when it renews its lease.
--
-- ARGV[2…] per job: id, member
-- Answers  {now, per job: 1 if it was there}
--@include prelude

check_types()
local answers, removed = {}, false
for i = 2, #ARGV, 2 do
  call('ZREM', NEXT, ARGV[i + 1])
  local there = call('HDEL', JOBS, ARGV[i])
  removed = removed or there == 1
  answers[#answers + 1] = there
end
if removed then
  wake()
end
return { digits(now), answers }
