-- dependants: unfinished jobs that come after another.
--
-- ARGV[2]  id of that job
-- ARGV[3]  how many at most
-- Answers  {id, digit of its state, ...}, in the order of arrival
--@include current admission find

local parent, answer = find_job(ARGV[2]), {}
if not parent or not more_of(parent).followed then
  return answer
end
local ids = call('ZRANGE', relations.followers_of(parent), 0, DEPENDANTS_LOOKED_AT - 1)
load_many(ids)
for _, id in ipairs(ids) do
  local child = find_job(id)
  if child and child.state < DONE and #answer < 2 * tonumber(ARGV[3]) then
    answer[#answer + 1], answer[#answer + 2] = id, child.state
  end
end
return answer
