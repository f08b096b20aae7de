-- unlock: a waiter that was let in leaves the door open for others, for another ten seconds at most.
--
-- ARGV[2]  lock key
-- ARGV[3]  seconds
-- Answers  0 if there was an element already, else 1
--@include prelude

if call('EXISTS', ARGV[2]) == 1 then
  return 0
end
call('LPUSH', ARGV[2], 'OK')
call('EXPIRE', ARGV[2], ARGV[3])
return 1
