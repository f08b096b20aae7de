-- retry jid queue worker [delay [group [message]]]
-- Gives a job back for another attempt, after a delay. Without attempts left it fails.
-- Reply: how many attempts are left; -1: it has failed.
Qless.retry = function(now, arguments)
  local jid = required('Retry', 'jid', arguments[1])
  local queue = required('Retry', 'queue', arguments[2])
  local worker = required('Retry', 'worker', arguments[3])
  local delay = number('Retry', 'delay', arguments[4] or 0)
  local group = arguments[5] ~= '' and arguments[5] or nil
  return Qless.Failures.retry(now, jid, queue, worker, delay, group, arguments[6])
end
return Qless.retry
