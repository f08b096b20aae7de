-- blocks: the tasks that are blocked.
--
-- Answers  for each its name, {since when, by whom, why} as msgpack, and how many jobs wait because of it
--@include current admission

local answer = {}
for _, task in ipairs(call('HKEYS', barring.key)) do
  local n = #answer
  answer[n + 1], answer[n + 2] = task, barring.about(task)
  answer[n + 3] = barring.number(task)
end
return answer
