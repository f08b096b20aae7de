-- get: look at jobs.
--
-- ARGV[2...]  job ids
-- Answers     for each an empty list, or what find.lua says about it
--@include current find

local ids = arguments(2)
load_many(ids)
local answer = {}
for i, id in ipairs(ids) do
  local job = find_job(id)
  answer[i] = job and describe(job) or {}
end
return answer
