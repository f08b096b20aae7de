-- look: is there anything to claim or to clear away? Changes nothing.
--
-- ARGV[2]  likenesses of the jobs that can be run here, a line each
-- ARGV[3]  ids to be passed over, a line each
-- Answers  {now, 1 if there is, next due or ''}
--@include prelude scan

local found, strays, _, resume = scan(set_of(ARGV[2]), set_of(ARGV[3]), 1, 0)
return { digits(now), (#found > 0 or #strays > 0 or resume) and 1 or 0, next_due() or '' }
