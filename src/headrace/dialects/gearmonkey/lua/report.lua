-- report: progress and data of running jobs, fenced.
--
-- ARGV[2]  session id
-- ARGV[3]  number of the request
-- ARGV[4]  msgpack: a list of {ref, token, id, done and total as text or false, data or false}
-- Answers  1 per report that was recorded, 0 where the lease is gone
--@include prelude record held session

local session, number, repeated = numbered(ARGV[2], ARGV[3])
mark_seen(session, number)
if repeated then
  return answered(session)
end
local answers = {}
for i, report in ipairs(cmsgpack.unpack(ARGV[4])) do
  local fn, id = locate(report[3])
  local place = fn and place_of(fn, id) or ''
  local packed = read_held(session.id, { place })[1]
  local held = packed and unpack_held(session.id, place, packed)
  local record = held and parse(held.blob)
  local ours = held and record.ref == report[1] and record.token == report[2] and call('EXISTS', job_key(held.fn, held.number)) == 1
  if ours then
    if report[4] then
      call('HSET', job_key(held.fn, held.number), 'status:dividend', report[4], 'status:divisor', report[5])
    end
    if report[6] then
      record.data = report[6]
      held.blob = build(record)
      write_held(session.id, held)
    end
  end
  answers[i] = ours and 1 or 0
end
call('HSET', session_key(session.id), 'verdicts', table.concat(answers))
return answers
