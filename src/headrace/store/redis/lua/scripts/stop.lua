-- stop: ask the worker of a session to stop. Its renewals say so from then on.
--
-- ARGV[2]  session id
-- Answers  1, or 0 if no such session is open
--@include current sessions

local session = read_session(ARGV[2])
if not session or session.closed then
  return 0
end
even_when_full()
call('HSET', session.key, 'stop', 1)
return 1
