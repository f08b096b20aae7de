-- put: insert a batch of jobs, 1,000 at most, all or nothing. What costs more than some milliseconds goes by `stage` and `admit`.
--
-- ARGV[2]  the batch: for each job
--          H id, H queue, B when (0 now, 1 at, 2 after), d at or after (milliseconds), i priority, H max_crashes, H flags,
--          I `put` as in the record; if LARGE_BODY: I body;
--          if UNIQUE: H key, d unique for (milliseconds; -1: not), B replace;
--          if MORE: I msgpack, see plan.lua; if HAS_DATA: I data
-- ARGV[3]  for each pair that needs a worker: H queue, H task
-- Answers  {now, {id of a job, how it has changed its lane, in words, ...}, clash, ...}: per job the id of the job that stands in its
--          way, or '' when it is there now
-- Fails    NOWORKERS, REFUSED, before anything is written
--@include put commit
batch = ARGV[2]

read_batch()
roll_call(ARGV[3] or '')
count_arrivals()
if special then
  check_lanes(ids)
end
local answer = insert_all()
table.insert(answer, 1, string.format('%.0f', now))
table.insert(answer, 2, plan.lanes_changed)
local worked = work_off()
if plan.changed[1] or rewritten[1] or worked then
  commit(keep_arrivals())
end
return answer
