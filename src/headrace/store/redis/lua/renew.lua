-- renew: keep a session alive, and its place among those who wait to be told of work. Tells which of the leases named are lost
-- or to be stopped.
--
-- ARGV[2]  session id
-- ARGV[3]  leases held: H id, d arrival, d token
-- ARGV[4]  spare leases that were started: d arrival each
-- Answers  {now, a byte per lease: 0 held, 1 lost, 2 cancelled}
-- Fails    GONE
--@include prelude job plan more schedules session started settings stats wake patterns commit

local session = live_session(ARGV[2])
local leases, ids = {}, {}
local at = 1
while at <= #ARGV[3] do
  local id, arrival, token
  id, arrival, token, at = unpack_from('>Hc0dd', ARGV[3], at)
  ids[#ids + 1] = id
  leases[#leases + 1] = { arrival, token }
end
load_many(ids)
mark_started(session, ARGV[4])
local answer = {}
for i, lease in ipairs(leases) do
  local job = find_job(ids[i])
  local byte = '\0'
  if not holds(session, job, lease[1], lease[2]) then
    byte = '\1'
  elseif band(job.flags, CANCELLING) ~= 0 then
    byte = '\2'
  end
  answer[i] = byte
end
local hungry = hungry_for(session)
check_hungry(hungry)
commit(function()
  even_when_full()
  call('HSET', session.key, 'seen', string.format('%.0f', steady), 'seen_at', string.format('%.0f', now))
end)
stay_hungry(hungry)
return { string.format('%.0f', now), table.concat(answer) }
