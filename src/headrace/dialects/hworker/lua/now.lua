-- now: the server's time, and proof that it can be reached.
--
-- Answers     the time in microseconds
--@include prelude

return instant()
