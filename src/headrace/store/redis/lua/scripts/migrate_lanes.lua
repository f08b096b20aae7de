-- migrate_lanes: the job that is first in a sequence was called `turn` in format 1.
--
-- ARGV[2]  the step after this one
-- Answers  the step to call next
--@include migration

if at_step ~= 'migrate_lanes' then
  return at_step or ''
end
local key, changed = PREFIX .. 'lanes', {}
local found, behind = next_piece(key, 1000)
for i = 1, #found, 2 do
  local good, lane = pcall(cmsgpack.unpack, found[i + 1])
  if good and type(lane) == 'table' and lane.turn then
    lane.first, lane.turn = lane.turn, nil
    changed[#changed + 1] = found[i]
    changed[#changed + 1] = cmsgpack.pack(lane)
  end
end
local answer = go_on(behind)
bulk('HSET', key, changed)
return answer
