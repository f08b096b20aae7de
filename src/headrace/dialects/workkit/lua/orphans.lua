-- orphans: a stretch of S:jobs, and which of its jobs have no entry of the usual spelling. Changes nothing.
--
-- ARGV[2]  cursor
-- Answers  {now, next cursor, per job without entry: {id, payload}}
--@include prelude

local reply = call('HSCAN', JOBS, ARGV[2], 'COUNT', 500)
local found = {}
for i = 1, #reply[2], 2 do
  local id, payload = reply[2][i], reply[2][i + 1]
  if not string.find(id, '["\\%c]') and not call('ZSCORE', NEXT, '{"id":"' .. id .. '"}') then
    found[#found + 1] = { id, payload }
  end
end
return { digits(now), reply[1], found }
