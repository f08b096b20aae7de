-- stage: a part of a batch that is too large for one `put`. With the last one the batch is put: `admit` brings its jobs in.
--
-- ARGV[2]  the batch: any name that no other has
-- ARGV[3]  which part: 0, 1, 2 and so on
-- ARGV[4]  the part: 'j' and jobs, 1,000 at most, as in `put`; or more of what a job comes after (see put.lua)
-- ARGV[5]  '' or, with the last part, 'all'
-- ARGV[6]  for each pair that needs a worker: H queue, H task
-- Answers  1, or 0 if parts before this one are not there (any more): send them again
-- Fails    NOWORKERS, REFUSED, before anything is written
--@include put commit
batch = ARGV[4]:sub(2)

local stages = stages_of(ARGV[2])
local number, there = tonumber(ARGV[3]), call('LLEN', stages.parts)
if there > number or call('EXISTS', stages.about) == 1 then
  return 1 -- a repeat
elseif there < number then
  return 0
end
if ARGV[4]:sub(1, 1) == 'p' then
  joining.check(ARGV[4])
  batch = ''
end
checks.SAID.joining = true
read_batch()
roll_call(ARGV[6] or '')
count_arrivals()
if special then
  check_lanes(ids)
end

-- The first write needs memory: a full server refuses it, and with it all the others.
call('RPUSH', stages.parts, ARGV[4])
if ARGV[5] == '' then
  call('PEXPIRE', stages.parts, KEPT)
else
  call('PERSIST', stages.parts)
  call('HSET', stages.about, 'at', string.format('%.0f', now))
  call('ZADD', stages.arriving, string.format('%.0f', now), ARGV[2])
end
return 1
