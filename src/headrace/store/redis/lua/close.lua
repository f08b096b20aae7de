-- close: give back all leases of a session and end it for good.
--
-- ARGV[2]  session id
-- ARGV[3]  'all' when nobody knows who is guilty, else ''
-- ARGV[4]  the guilty: d arrival each
-- Answers  the ids given back; none when the session is closed already, or unknown
--@include prelude job plan more schedules sorted lanes outcome ending culprits relations session settings stats wake patterns queues commit closing

local session = read_session(ARGV[2])
if not session or session.closed then
  return {}
end
local guilty = nil
if ARGV[3] == '' then
  guilty = {}
  for at = 1, #ARGV[4], 8 do
    guilty[unpack_from('>d', ARGV[4], at)] = true
  end
end
check_type(SESSIONS, 'zset')
local returned, age = give_back(session, guilty), setting('max-worker-age')
work_off()
queues.tell_of_room()
commit(even_when_full)
bury(session, age)
return returned
