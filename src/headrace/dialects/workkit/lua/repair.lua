-- repair: give jobs that have lost their entries new ones. Of those that have one, or are gone, nothing is changed.
--
-- ARGV[2…] per job: id, member, run time
-- Answers  {now, per job: 1 if it was repaired}
--@include prelude

check_types()
local answers = {}
for i = 2, #ARGV, 3 do
  local there = call('HEXISTS', JOBS, ARGV[i]) == 1
  answers[#answers + 1] = there and call('ZADD', NEXT, 'NX', ARGV[i + 2], ARGV[i + 1]) or 0
end
wake()
return { digits(now), answers }
