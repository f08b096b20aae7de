-- history: what was recorded of a job.
--
-- ARGV[2]  job id
-- Answers  {} or {record, name of the session that runs it, {entry, ...}, how many lines are kept}; entries d at, H what,
--          I detail, H worker; the rest is an account of the run that ended
--@include current find

local job = find_job(ARGV[2])
if not job then
  return {}
end
local name = job.state == RUNNING and runner(job.session) or ''
local entries = band(job.flags, HISTORY) ~= 0 and call('LRANGE', PREFIX .. 'history:' .. job.id, 0, 9999) or {}
return { serialize(job), name, entries, setting('max-job-history') }
