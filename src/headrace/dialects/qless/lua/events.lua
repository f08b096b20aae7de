-- Messages to workers.
local Events = {}
Qless.Events = Events

-- Tell a worker something, and then everyone who follows the log.
function Events.tell(worker, message)
  local text = encode(message)
  call('PUBLISH', 'ql:w:' .. worker, text)
  call('PUBLISH', 'ql:log', text)
end

return Events
