-- migrate_end: the setting `heartbeat` gets its new name, and the namespace is in the new format.
--
-- ARGV[2]  ''
-- Answers  '', or the step to call if that comes before this one
--@include migration settings

if at_step ~= 'migrate_end' then
  return at_step or ''
end
local renamed, retired = {}, {}
local kept = call('HGETALL', SETTINGS)
for i = 1, #kept, 2 do
  local rest = kept[i]:match('^heartbeat(.*)$')
  if rest == '' or rest and rest:sub(1, 1) == ':' then
    retired[#retired + 1] = kept[i]
    renamed[#renamed + 1] = 'session-timeout' .. rest
    renamed[#renamed + 1] = kept[i + 1]
  end
end
local answer = go_on(nil)
bulk('HSET', SETTINGS, renamed)
bulk('HDEL', SETTINGS, retired)
return answer
