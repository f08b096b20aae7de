-- A lease that was held ready has been started.
UPDATE job SET flags = flags & ~2 WHERE seq = ?1 AND session = ?2 AND state = 2
