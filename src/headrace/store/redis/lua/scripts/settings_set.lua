-- settings_set: set something, or go back to the default.
--
-- ARGV[2...]  name, value ('': the default), ...
-- Answers     how many have been set
--@include current settings wait

check_type(SETTINGS, 'hash')
local ages = false
local set, unset = {}, {}
for i = 2, #ARGV, 2 do
  ages = ages or ARGV[i] == 'max-worker-age'
  if has_subscribers() then
    happened_to('', '\0\0\0\0', 1, 'set', ARGV[i] .. ' ' .. (ARGV[i + 1] == '' and 'default' or ARGV[i + 1]), '')
  end
  if ARGV[i + 1] == '' then
    unset[#unset + 1] = ARGV[i]
  else
    set[#set + 1] = ARGV[i]
    set[#set + 1] = ARGV[i + 1]
  end
end
bulk('HSET', SETTINGS, set)
bulk('HDEL', SETTINGS, unset)
if ages then
  call('DEL', PREFIX .. 'expiries') -- when to look at sessions was worked out with the age that was set before
end
publish_events()
return call('HLEN', SETTINGS)
