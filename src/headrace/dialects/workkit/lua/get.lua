-- get: payloads and scores of jobs by id.
--
-- ARGV[2…] per job: id, member
-- Answers  {now, per job: {payload, score or ''}, or 0 if there is none}
--@include prelude

local answers = {}
for i = 2, #ARGV, 2 do
  local payload = call('HGET', JOBS, ARGV[i])
  answers[#answers + 1] = payload and { payload, call('ZSCORE', NEXT, ARGV[i + 1]) or '' } or 0
end
return { digits(now), answers }
