-- retry jid queue worker [delay [group [message]]]
-- Gives a job back for another attempt, after a delay. Without attempts left it fails.
-- Reply: how many attempts are left; -1: it has failed.
function Qless.retry(now, jid, queue, worker, delay, group, message)
  required('Retry', 'jid', jid)
  required('Retry', 'queue', queue)
  required('Retry', 'worker', worker)
  delay = number('Retry', 'delay', delay or 0)
  return Qless.Failures.retry(now, jid, queue, worker, delay, group ~= '' and group or nil, message)
end
