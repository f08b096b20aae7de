-- open: begin a session. Opening an open one again changes nothing but what is told about it.
--
-- ARGV[2..6] id, name, time-out in milliseconds, the rest about it (opaque), what it listens to and knows (msgpack list of
--            field, '1', ...)
-- Answers    now
-- Fails      GONE when it has been closed
--@include prelude job plan more session

local id = ARGV[2]
local session = read_session(id)
if session then
  if session.closed then
    fail('GONE', 'Session ' .. id .. ' has been closed and cannot be opened again.')
  end
  even_when_full()
  call('HSET', session.key, 'info', ARGV[5])
  return string.format('%.0f', now)
end
local meta = call('HMGET', META, 'format', 'sessions')
if meta[1] and meta[1] ~= '1' then
  fail('NEWER', PREFIX .. ' was written in format ' .. meta[1])
end
local number = (tonumber(meta[2] or 0) or fail('CORRUPT', META .. ' has no number in field sessions')) + 1
local fields = cmsgpack.unpack(ARGV[6])
check_type(SESSIONS, 'zset')
local stamp = string.format('%.0f', now)
even_when_full() -- who works makes room
call('HSET', META, 'format', '1', 'sessions', number)
call('ZADD', SESSIONS, number, id)
call('HSET', session_key(id), 'number', number, 'name', ARGV[3], 'timeout', ARGV[4], 'info', ARGV[5],
  'opened', stamp, 'seen', string.format('%.0f', steady), 'seen_at', stamp, 'request', 0)
bulk('HSET', session_key(id), fields)
return stamp
