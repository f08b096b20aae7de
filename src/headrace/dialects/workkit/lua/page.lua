-- page: a stretch of the schedule, earliest first.
--
-- ARGV[2]  where to begin
-- ARGV[3]  how many
-- Answers  {now, per entry: {id or '', score, payload or ''}}
--@include prelude scan

local entries = call('ZRANGE', NEXT, ARGV[2], ARGV[2] + ARGV[3] - 1, 'WITHSCORES')
local answers = {}
for i = 1, #entries, 2 do
  local id = id_of(entries[i])
  answers[#answers + 1] = { id or '', entries[i + 1], id and call('HGET', JOBS, id) or '' }
end
return { digits(now), answers }
