-- log: add a line to the histories of jobs, in whatever state they are. That of a running job is among the lines of its run.
--
-- ARGV[2]     the line
-- ARGV[3...]  job ids
-- Answers     for each 1, or 0 if there is no such job
-- Fails       REFUSED
--@include current acts find

checks.text(ARGV[2], 'The line')
return act_on(arguments(3), unless_full, function(job)
  local worker = ''
  if job.state == RUNNING then
    worker = runner(job.session)
  elseif job.state >= DONE then
    remember_end(job)
  end
  remember(job, now, 'log', ARGV[2], worker)
  happened(job, 'log', ARGV[2], worker)
  change(job)
  return true
end)
