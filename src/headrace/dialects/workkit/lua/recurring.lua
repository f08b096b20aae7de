-- recurring: a stretch of S:jobs, and those of its jobs that may run more than once. Changes nothing.
--
-- ARGV[2]  cursor
-- ARGV[3]  the pattern of a cron that names one second
-- Answers  {now, next cursor, per job: {id, payload, score or ''}}
--@include prelude

-- A payload may have other objects with a cron in its arguments: Python reads it whole.
local function may_recur(payload)
  for cron in string.gmatch(payload, '"cron"%s*:%s*"([^"]*)"') do
    if not string.find(cron, ARGV[3]) then
      return true
    end
  end
  return false
end

local reply = call('HSCAN', JOBS, ARGV[2], 'COUNT', 500)
local found = {}
for i = 1, #reply[2], 2 do
  local id, payload = reply[2][i], reply[2][i + 1]
  if may_recur(payload) then
    found[#found + 1] = { id, payload, call('ZSCORE', NEXT, '{"id":"' .. id .. '"}') or '' }
  end
end
return { digits(now), reply[1], found }
