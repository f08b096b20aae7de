-- close: end a session for good, and give back its leases, or some of them: the next call goes on.
--
-- ARGV[2]  session id
-- ARGV[3]  'all' when the guilty are not known, else ''
-- ARGV[4]  the guilty: d arrival each
-- Answers  {1 if there are more, the ids given back}; none when the session is closed already, or unknown
--@include commit queues closing

local session = read_session(ARGV[2])
if not session or session.closed and not session.closing then
  return { 0, {} }
end
check_type(SESSIONS, 'zset')
check_type(EXPIRIES, 'zset')
local guilty = session.closing or ARGV[3] == '' and '=' .. ARGV[4] or 'all'
local returned, age = give_back(session, guilty, LEASES_AT_ONCE), setting('max-worker-age')
work_off()
queues.tell_of_room()
commit(even_when_full)
if session.left then
  fence(session)
  return { 1, returned }
end
bury(session, age)
return { 0, returned }
