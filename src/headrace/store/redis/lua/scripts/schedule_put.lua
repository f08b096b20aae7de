-- schedule_put: store a schedule, if it is as the caller has seen it.
--
-- ARGV[2]  its name
-- ARGV[3]  the version that is expected; '': there is no such schedule yet
-- ARGV[4]  its record (see schedules.lua); version and created are set here
-- Answers  1, or 0 if the version is another: nothing was changed then
-- Fails    REFUSED
--@include current commit

-- All that look at schedules read it.
local function check(name, record)
  checks.text(name, 'The name of a schedule')
  checks.text(record.queue, 'The queue of schedule ', name)
  checks.text(record.last_job, 'The last job of schedule ', name)
  checks.text(record.definition, 'The definition of schedule ', name)
  local good, said = pcall(cjson.decode, record.definition)
  if not good or type(said) ~= 'table' or type(said.rule) ~= 'string' or type(said.task) ~= 'string' then
    checks.refuse('The definition of schedule ' .. name .. ' must be a JSON object with a `rule` and a `task`.')
  end
end

local name = ARGV[2]
local known = schedules.find(name)
if (known and string.format('%.0f', known.version) or '') ~= ARGV[3] then
  return 0
end
local record = schedules.parse(name, ARGV[4])
check(name, record)
record.version = known and known.version or 0
record.created = known and known.created or now
schedules.keep(record)
commit(unless_full)
return 1
