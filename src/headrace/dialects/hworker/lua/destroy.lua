-- destroy: delete all keys of the queues.
--
-- Answers     how many keys there were
--@include prelude

return call('DEL', unpack(KEYS))
