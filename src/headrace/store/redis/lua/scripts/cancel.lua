-- cancel: what waits or has failed is cancelled at once, what runs is asked to stop.
--
-- ARGV[2...]  job ids
-- Answers     for each 1 if it is cancelled or asked to stop, else 0
--@include current acts

return act_on(arguments(2), even_when_full, function(job)
  if job.state == RUNNING then
    ask_to_stop(job)
  elseif job.state ~= CANCELLED and job.state ~= DONE then
    if job.state == FAILED then
      remember_end(job)
    end
    leave_state(job)
    finish(job, CANCELLED, now)
    happened(job, 'cancelled')
  end
  return job.state ~= DONE
end)
