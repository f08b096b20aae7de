-- strangers: a stretch of S:next, and the ids of its entries that are spelled in another way than ours. Changes nothing.
--
-- ARGV[2]  cursor
-- Answers  {now, next cursor, ids}
--@include prelude scan

local reply = call('ZSCAN', NEXT, ARGV[2], 'COUNT', 500)
local found = {}
for i = 1, #reply[2], 2 do
  local id = id_of(reply[2][i])
  if id and reply[2][i] ~= '{"id":"' .. id .. '"}' then
    found[#found + 1] = id
  end
end
return { digits(now), reply[1], found }
