-- delete: remove all trace of jobs; a running one is lost to its session.
--
-- ARGV[2...]  job ids
-- Answers     for each 1 if it was there, else 0
--@include current acts

return act_on(arguments(2), even_when_full, function(job)
  happened(job, 'deleted')
  remove(job)
  return true
end)
