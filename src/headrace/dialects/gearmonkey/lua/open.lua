-- open: begin a session, and register it with every function that it accepts.
--
-- ARGV[2]  session id
-- ARGV[3]  name
-- ARGV[4]  time-out (ms)
-- ARGV[5]  the whole introduction, for people
-- ARGV[6]  msgpack: the functions that it accepts
-- ARGV[7]  msgpack: those that the queue `default` stands for
-- Answers  now
--@include prelude record held session

local known = read_session(ARGV[2])
if known and known.closed then
  fail('GONE', 'session ' .. ARGV[2] .. ' is closed')
end
if not known then
  local functions = cmsgpack.unpack(ARGV[6])
  for _, fn in ipairs(functions) do
    check_type('count:' .. fn, 'string')
    if not (call('GET', 'count:' .. fn) or '0'):match('^-?%d+$') then
      fail('CORRUPT', 'count:' .. fn .. ' is not a number')
    end
  end
  call('HSET', session_key(ARGV[2]), 'name', ARGV[3], 'timeout', ARGV[4], 'info', ARGV[5], 'functions', ARGV[6], 'tasks',
    ARGV[7], 'opened', digits(now), 'seen', digits(steady), 'number', '0')
  call('ZADD', SESSIONS, steady + tonumber(ARGV[4]), ARGV[2])
  register({ id = ARGV[2], timeout = tonumber(ARGV[4]), functions = functions })
end
return now
