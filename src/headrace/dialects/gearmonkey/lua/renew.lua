-- renew: a sign of life. Moves all leases and registrations of a session forward.
--
-- ARGV[2]  session id
-- ARGV[3]  msgpack: leases to be told about, a list of {ref, token}
-- ARGV[4]  msgpack: hand-outs that were spare and have been started
-- Answers  {now, per lease: 0 held, 1 lost, 2 to be stopped}
--@include prelude record session

local session = guard(ARGV[2])
mark_seen(session)
register(session)
local until_when = steady + session.timeout
local cancelling = {}
local held = call('HGETALL', held_key(session.id))
local places = table_of(held)
for _, place in pairs(places) do
  local level, number, fn = place:match('^(%a+):(%d+):(.+)$')
  call('ZADD', leases_key(fn), 'XX', until_when, level .. ':' .. number)
end
for _, ref in ipairs(cmsgpack.unpack(ARGV[4])) do
  local place = places[digits(ref)]
  if place then
    local _, number, fn = place:match('^(%a+):(%d+):(.+)$')
    call('HDEL', record_key(fn, number), 'spare')
  end
end
local answers = {}
for i, lease in ipairs(cmsgpack.unpack(ARGV[3])) do
  local place = places[digits(lease[1])]
  answers[i] = 1
  if place then
    local level, number, fn = place:match('^(%a+):(%d+):(.+)$')
    local found = call('HMGET', record_key(fn, number), 'ref', 'token', 'cancelling')
    if call('EXISTS', job_key(fn, number)) == 0 then
      -- Deleted by somebody who knows nothing of leases.
      call('HDEL', held_key(session.id), digits(lease[1]))
      call('ZREM', leases_key(fn), level .. ':' .. number)
    elseif found[1] == digits(lease[1]) and found[2] == digits(lease[2]) then
      answers[i] = found[3] and 2 or 0
    end
  end
end
return { now, answers }
