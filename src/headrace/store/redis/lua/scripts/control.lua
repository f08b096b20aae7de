-- control: pause a queue, let it go on, or limit how many of its jobs run at once.
--
-- ARGV[2]  pause, resume or limit
-- ARGV[3]  queue
-- ARGV[4]  by whom it is paused; or the limit, '' for none
-- Answers  1, or 0 if it was paused already, or was not paused
--@include current wait

local act, queue, value = ARGV[2], ARGV[3], ARGV[4]
local field = (act == 'limit' and 'l' or 'p') .. queue
local found = call('HGET', CONTROL, field)
if act ~= 'limit' and (act == 'pause') == (found ~= false) then
  return 0
end
local asleep = {}
for _, name in ipairs(listening_to(queue)) do
  if check_type(PREFIX .. 'hungry:' .. name, 'zset') then
    asleep[#asleep + 1] = name
  end
end
if act == 'limit' and has_subscribers() then
  happened_to('', '\0\0\0\0', 1, 'set', 'max-concurrency:' .. queue .. ' ' .. (value == '' and 'default' or value), '')
end
even_when_full()
if act == 'pause' then
  call('HSET', CONTROL, field, string.format('%.0f', now) .. ' ' .. value)
elseif act == 'resume' or value == '' then
  call('HDEL', CONTROL, field)
else
  call('HSET', CONTROL, field, value)
end
if act ~= 'pause' then
  for _, name in ipairs(asleep) do
    wake(name, 16)
  end
end
publish_events()
return 1
