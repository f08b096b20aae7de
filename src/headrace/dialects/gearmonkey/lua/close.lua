-- close: end a session; what it holds goes back in line, its registrations are taken back.
--
-- ARGV[2]  session id
-- ARGV[3]  msgpack: hand-outs to be charged with a crash, or false: all that are not spare
-- Answers  the ids of the jobs that went back
--@include prelude record held session

local session = read_session(ARGV[2])
if not session or session.closed then
  return {}
end
local named = cmsgpack.unpack(ARGV[3])
local guilty
if named then
  guilty = {}
  for _, ref in ipairs(named) do
    guilty[digits(ref)] = true
  end
end
return end_session(session, guilty)
