-- renew: a sign of life. Moves all leases and registrations of a session forward.
--
-- ARGV[2]  session id
-- ARGV[3]  msgpack: leases to be told about, a list of {ref, token}
-- ARGV[4]  msgpack: hand-outs that were spare and have been started
-- Answers  {now, per lease: 0 held, 1 lost, 2 to be stopped}
--@include prelude record held session

local session = guard(ARGV[2])
mark_seen(session)
register(session)
local until_when, held, members = digits(steady + session.timeout), {}, {}
for _, pair in ipairs(read_all_held(session.id)) do
  local mine = list_in(members, pair[2].fn)
  held[pair[2].ref] = pair
  mine[#mine + 1] = until_when
  mine[#mine + 1] = pair[2].level .. ':' .. pair[2].number
end
for fn, leases in pairs(members) do
  in_pieces('ZADD', leases_key(fn), leases)
end
note_started(session.id, cmsgpack.unpack(ARGV[4]))
local answers, gone = {}, {}
for i, lease in ipairs(cmsgpack.unpack(ARGV[3])) do
  local pair = held[lease[1]]
  local mine = pair and pair[2]
  answers[i] = 1
  if mine and call('EXISTS', job_key(mine.fn, mine.number)) == 0 then
    gone[#gone + 1] = pair -- deleted by somebody who knows nothing of leases
  elseif mine then
    local record = parse(mine.blob)
    if record.token == lease[2] then
      answers[i] = record.cancelling and 2 or 0
    end
  end
end
let_go(session.id, gone)
return { now, answers }
