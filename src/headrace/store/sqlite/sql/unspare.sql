-- A lease that was held ready has been started.
UPDATE job SET flags = flags & ~2 WHERE seq = (?1 >> 32) AND turn = (?1 & 4294967295) AND session = ?2 AND state = 2
