-- exchange: settle outcomes, then take jobs, in one step. The same number again gets the same answer.
--
-- ARGV[2]  session id
-- ARGV[3]  number of the request
-- ARGV[4]  outcomes (see settle.lua)
-- ARGV[5]  msgpack: hand-outs that were spare and have been started
-- ARGV[6]  msgpack: what to take (see take.lua), or false
-- Answers  {now, next due or -1, verdicts, leases (see take.lua), numbers that were dropped}
--@include prelude record held session take

local wanted = cmsgpack.unpack(ARGV[6])
local session, number, repeated = numbered(ARGV[2], ARGV[3], not wanted)
for _, fn in ipairs(session.functions) do
  check_function(fn)
end

-- What this very request took before, and still holds.
local function taken_before()
  local leases = {}
  for _, pair in ipairs(read_all_held(session.id)) do
    local held = pair[2]
    if held.request == number then
      leases[#leases + 1] = { held.fn, held.label, held.level, held.spare and 1 or 0, { held.number },
        { call('HGET', job_key(held.fn, held.number), 'input') or '' }, { hand_out(held) }, held.ref }
    end
  end
  table.sort(leases, function(a, b) return a[8] < b[8] end)
  for _, lease in ipairs(leases) do
    lease[8] = nil
  end
  return leases
end

mark_seen(session, number)
note_started(session.id, cmsgpack.unpack(ARGV[5]))
local verdicts, leases, dropped = {}, {}, {}
if repeated then
  verdicts, leases = answered(session), taken_before()
elseif ARGV[4] ~= '' then
  -- Set up only where there is something to settle: one who was just woken is handed its job sooner.
--@include settle
  verdicts = settle_all(session, ARGV[4])
end
if not repeated and (verdicts[1] or session.verdicts ~= '') then
  call('HSET', session_key(session.id), 'verdicts', table.concat(verdicts))
end
if wanted and not repeated then
  leases, dropped = take(session, number, wanted)
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
