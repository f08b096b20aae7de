-- parents: what a waiting job comes after, and whether it could come after some more.
--
-- ARGV[2]  job id
-- ARGV[3]  ids to add, 80 at most: H each
-- Answers  H id of each job that it comes after; nil if there is no such job, or it does not wait
-- Fails    CYCLE if it would wait for itself, REFUSED in a sequence
--@include current admission

checks.names(ARGV[3], 'the ids to add')
local job = find_job(ARGV[2])
if not job or job.state == RUNNING or job.state >= DONE then
  return nil
end
links.check_added(job, relations.names_in(ARGV[3]))
return relations.packed_parents(job)
