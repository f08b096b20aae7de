-- fail jid worker group message [data]
-- Ends a run badly: the job waits among the failed ones of a group for somebody to look at it.
-- Reply: the jid.
function Qless.fail(now, jid, worker, group, message, data)
  required('Fail', 'jid', jid)
  required('Fail', 'worker', worker)
  required('Fail', 'group', group)
  if data then
    json('Fail', 'data', data)
  end
  return Qless.Failures.fail(now, jid, worker, group, message or required('Fail', 'message'), data)
end
