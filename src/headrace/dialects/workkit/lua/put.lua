-- put: the published insertion, steps 2 to 5, for a batch: all of it or nothing.
--
-- ARGV[2]  up to which time (milliseconds from now) listeners are woken: they look by themselves before later ones
-- ARGV[3…] per job: id, payload, member, run time
-- Answers  {now, a number per job: 1 it is new, 0 it was there already (nothing was changed)}
--@include prelude

check_types()
local answers, soon = {}, false
for i = 3, #ARGV, 4 do
  local id, payload, member, due = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local new = call('HSETNX', JOBS, id, payload)
  if new == 1 then
    call('ZADD', NEXT, due, member)
    soon = soon or tonumber(due) <= now + tonumber(ARGV[2])
  end
  answers[#answers + 1] = new
end
if soon then
  wake()
end
return { digits(now), answers }
