-- exchange: settle outcomes, then take jobs, in one step. The same number again gets the same answer.
--
-- ARGV[2]  session id
-- ARGV[3]  number of the request
-- ARGV[4]  msgpack: outcomes (see settle.lua)
-- ARGV[5]  msgpack: hand-outs that were spare and have been started
-- ARGV[6]  msgpack: what to take (see take.lua), or false
-- Answers  {now, next due or -1, verdicts, leases (see take.lua), numbers that were dropped}
--@include prelude record session settle take

local session, number = guard(ARGV[2]), tonumber(ARGV[3])
if number < session.number then
  fail('STALE', 'request ' .. ARGV[3] .. ' of session ' .. ARGV[2] .. ' comes after ' .. digits(session.number))
end
for _, fn in ipairs(session.functions) do
  check_function(fn)
end

-- What this very request took before, and still holds.
local function taken_before()
  local leases = {}
  local held = call('HGETALL', held_key(session.id))
  for i = 1, #held, 2 do
    local level, id, fn = held[i + 1]:match('^(%a+):(%d+):(.+)$')
    local flat = call('HGETALL', record_key(fn, id))
    local record = table_of(flat)
    if record.number == ARGV[3] and record.ref == held[i] then
      leases[#leases + 1] = { fn, id, record.label, call('HGET', job_key(fn, id), 'input') or '', flat, level,
        record.spare == '1' and 1 or 0, tonumber(held[i]), tonumber(record.token) }
    end
  end
  table.sort(leases, function(a, b) return a[8] < b[8] end)
  return leases
end

local repeated = number == session.number
mark_seen(session, number)
for _, ref in ipairs(cmsgpack.unpack(ARGV[5])) do
  local place = call('HGET', held_key(session.id), digits(ref))
  if place then
    local _, id, fn = place:match('^(%a+):(%d+):(.+)$')
    call('HDEL', record_key(fn, id), 'spare')
  end
end
local verdicts, leases, dropped = {}, {}, {}
if repeated then
  for i = 1, #session.verdicts do
    verdicts[i] = tonumber(session.verdicts:sub(i, i))
  end
else
  for i, outcome in ipairs(cmsgpack.unpack(ARGV[4])) do
    verdicts[i] = settle(session, outcome)
  end
  flush_put_back()
  call('HSET', session_key(session.id), 'verdicts', table.concat(verdicts))
end
local wanted = cmsgpack.unpack(ARGV[6])
if repeated then
  leases = taken_before()
elseif wanted then
  leases, dropped = take(session, ARGV[3], wanted)
end
local next_due = -1
for _, fn in ipairs(session.functions) do
  local head = call('ZRANGE', queue_key(fn, 'scheduled'), 0, 0, 'WITHSCORES')
  local due = head[2] and math.max(tonumber(head[2]), 0) * 1000
  if due and (next_due < 0 or due < next_due) then
    next_due = due
  end
end
return { now, next_due, verdicts, leases, dropped }
