-- renew: a sign of life. Moves all leases and registrations of a session forward.
--
-- ARGV[2]  session id
-- ARGV[3]  msgpack: leases to be told about, a list of {ref, token}
-- ARGV[4]  msgpack: hand-outs that were spare and have been started
-- ARGV[5]  msgpack: the number of the request after which these were all that the session held, or false
-- Answers  {now, per lease: 0 held, 1 lost, 2 to be stopped, what else it holds: a list of {ref, token, id}}
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
local answers, gone, named = {}, {}, {}
for i, lease in ipairs(cmsgpack.unpack(ARGV[3])) do
  local pair = held[lease[1]]
  local mine = pair and pair[2]
  answers[i], named[lease[1]] = 1, true
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

local MOST_STRAYS = 100
local strays, complete = {}, cmsgpack.unpack(ARGV[5])
if complete and complete >= session.number then
  local refs = {}
  for ref in pairs(held) do
    if not named[ref] then
      refs[#refs + 1] = ref
    end
  end
  table.sort(refs)
  for i = 1, math.min(#refs, MOST_STRAYS) do
    local mine = held[refs[i]][2]
    local record = parse(mine.blob)
    strays[i] = { refs[i], record.token, id_of(record, mine.fn, mine.number) }
  end
end
return { now, answers, strays }
