-- counts: how many jobs are where.
--
-- Answers  {digit of the state and queue, number, ...}
--@include prelude

return call('HGETALL', COUNT)
