-- Messages to workers, and to those who track jobs.

-- Tell a worker something, and then everyone who follows the log.
function Events.tell(worker, message)
  local text = cjson.encode(message)
  call('PUBLISH', 'ql:w:' .. worker, text)
  call('PUBLISH', 'ql:log', text)
end

-- If a job is tracked, say its jid on a channel.
function Events.tell_trackers(jid, channel)
  if call('ZSCORE', 'ql:tracked', jid) then
    call('PUBLISH', channel, jid)
  end
end
