-- migrate_policies: a job that does not say what it does when one of those fails that it comes after went on waiting in format 1,
-- and fails in format 2. Those of format 1 say so now.
--
-- ARGV[2]  the step after this one
-- Answers  the step to call next
--@include migration

if at_step ~= 'migrate_policies' then
  return at_step or ''
end
local MORE_KEY = PREFIX .. 'more'
local found, behind = next_piece(MORE_KEY, 1000)
local changed = {}
for i = 1, #found, 2 do
  local good, more = pcall(cmsgpack.unpack, found[i + 1])
  if good and type(more) == 'table' and more.after and not more.if_failed then
    more.if_failed = 'wait'
    changed[#changed + 1] = found[i]
    changed[#changed + 1] = cmsgpack.pack(more)
  end
end
local answer = go_on(behind)
bulk('HSET', MORE_KEY, changed)
return answer
