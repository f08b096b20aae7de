-- peek: what stands in the line of a queue, in the order in which it would be handed out.
--
-- ARGV[2]  queue
-- ARGV[3]  how many at most
-- Answers  {id, what find.lua says about it, ...}
--@include current find take

local answer = {}
for _, member in ipairs((head_of_line(ARGV[2], tonumber(ARGV[3])))) do
  local job = find_job(member:sub(13), ARGV[2])
  if job and job.state == READY then
    answer[#answer + 1] = job.id
    answer[#answer + 1] = describe(job)
  end
end
return answer
