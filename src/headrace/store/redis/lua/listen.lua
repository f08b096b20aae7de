-- listen: an ear is about to wait. Registers its session as hungry, and tells whether there is anything to wait for.
--
-- ARGV[2]     session id
-- ARGV[3...]  queues
-- Answers     {1 if there may be work already, milliseconds until the next scheduled job is due or -1}
--@include prelude

for i = 3, #ARGV do
  if call('EXISTS', PREFIX .. 'row:' .. ARGV[i], PREFIX .. 'line:' .. ARGV[i]) > 0 then
    return { 1, 0 }
  end
end
local head = call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
local ahead = head[2] and math.max(0, tonumber(head[2]) - now) or -1
for i = 3, #ARGV do
  check_type(PREFIX .. 'hungry:' .. ARGV[i], 'zset')
end
for i = 3, #ARGV do
  call('ZADD', PREFIX .. 'hungry:' .. ARGV[i], now, ARGV[2])
  call('PEXPIRE', PREFIX .. 'hungry:' .. ARGV[i], 60000)
end
return { 0, ahead }
