-- sessions: all open ones.
--
-- Answers  {introduction, functions (msgpack), opened, seen, leases held, 1 if alive} per session
--@include prelude record held session

local found = {}
for _, id in ipairs(call('ZRANGE', SESSIONS, 0, -1)) do
  local session = read_session(id)
  local told = call('HMGET', session_key(id), 'info', 'functions', 'opened')
  if session and not session.closed then
    found[#found + 1] = { told[1], told[2], told[3], digits(now - steady + session.seen), call('HLEN', held_key(id)), expired(session) and 0 or 1 }
  end
end
return found
