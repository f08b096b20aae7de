-- fail jid worker group message [data]
-- Ends a run badly: the job waits among the failed ones of a group for somebody to look at it.
-- Reply: the jid.
Qless.fail = function(now, arguments)
  local jid = required('Fail', 'jid', arguments[1])
  local worker = required('Fail', 'worker', arguments[2])
  local group = required('Fail', 'group', arguments[3])
  local message = arguments[4] or required('Fail', 'message')
  if arguments[5] then
    json('Fail', 'data', arguments[5])
  end
  return Qless.Failures.fail(now, jid, worker, group, message, arguments[5])
end
return Qless.fail
