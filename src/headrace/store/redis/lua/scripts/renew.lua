-- renew: keep a session alive, and its place among the sleepers. Answers which of the leases named are lost
-- or to be stopped, and of leases that were not named though they are held.
--
-- ARGV[2]  session id
-- ARGV[3]  leases held: H id, d arrival, d token
-- ARGV[4]  spare leases that were started: d arrival each
-- ARGV[5]  the number of the request after which these leases were all that the session held; may be empty or left out
-- ARGV[6]  how many bytes the session's process takes; may be empty or left out
-- Answers  {now, a byte per lease: 0 held, 1 lost, 2 cancelled; {place of a lease, data of its job, ...} of jobs that were updated
--          from outside; 1 if the session is asked to stop, else 0; then, of each lease beyond those: arrival, token, id}
-- Fails    GONE, REFUSED
--@include sessions hungry checks

local session = live_session(ARGV[2])
local hungry = hungry_for(session)
for _, name in ipairs(hungry) do
  if is_pattern(name) then
    check_type(PATTERNS, 'zset')
  end
end

local memory = (ARGV[6] or '') ~= '' and tonumber(ARGV[6])
if memory then
  checks.integer(memory, 0, LATEST, 'The memory of the session')
end

local function mark_seen()
  even_when_full()
  local values = { 'seen', string.format('%.0f', steady), 'seen_at', string.format('%.0f', now) }
  if memory then
    values[5], values[6] = 'memory', string.format('%.0f', memory)
  end
  call('HSET', session.key, unpack(values))
end

if ARGV[3] == '' and ARGV[4] == '' and ((ARGV[5] or '') == '' or call('SCARD', session.held) == 0) then
  mark_seen() -- that is all that an idle one needs
  stay_hungry(hungry)
  return { string.format('%.0f', now), '', {}, session.stop and 1 or 0 }
end
--@include commit

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
local answer, held, updated = {}, 0, {}
for i, lease in ipairs(leases) do
  local job = find_job(ids[i])
  local byte = '\0'
  if not holds(session, job, lease[1], lease[2]) then
    byte = '\1'
  else
    held = held + 1
    if band(job.flags, CANCELLING) ~= 0 then
      byte = '\2'
    end
    if band(job.flags, HAS_DATA) ~= 0 and band(job.story:byte(1), UPDATED) ~= 0 then
      updated[#updated + 1] = i
    end
  end
  answer[i] = byte
end

-- What the session holds beyond what it names, in order of arrival. Where the numbers agree there is none.
local strays = {}
local complete = tonumber(ARGV[5] or '')
if complete and complete >= session.request and call('SCARD', session.held) > held then
  local named = {}
  for _, lease in ipairs(leases) do
    named[lease[1]] = true
  end
  local all = call('SMEMBERS', session.held)
  load_many(all)
  for _, id in ipairs(all) do
    local job = find_job(id)
    if job and job.state == RUNNING and job.session == session.number and not named[job.arrival] then
      strays[#strays + 1] = job
    end
  end
  table.sort(strays, function(a, b)
    return a.arrival < b.arrival
  end)
end

local news = {} -- in turns, if there are many
for turn = 1, math.min(#updated, UPDATES_TOLD) do
  local i = updated[#updated > UPDATES_TOLD and (now + turn) % #updated + 1 or turn]
  local job = find_job(ids[i])
  news[2 * turn - 1], news[2 * turn] = i, value_of(job, story_of(job), 'data')
end

commit(mark_seen)
stay_hungry(hungry)
local reply = { string.format('%.0f', now), table.concat(answer), news, session.stop and 1 or 0 }
for i = 1, math.min(#strays, MOST_STRAYS) do
  reply[#reply + 1] = string.format('%.0f', strays[i].arrival)
  reply[#reply + 1] = string.format('%.0f', strays[i].token)
  reply[#reply + 1] = strays[i].id
end
return reply
