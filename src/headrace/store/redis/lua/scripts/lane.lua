-- lane: look at a lane.
--
-- ARGV[2]  queue
-- ARGV[3]  key
-- Answers  {}, or {key, limit, rate, per, 1 if it is a sequence, {ids of some jobs that run}, how many these are, front, how many are blocked, next start, weight, what an operator has set, the last change by a put: both as msgpack or ''}
--@include current admission

return lanes.describe(lanes.name(ARGV[2], ARGV[3]))
