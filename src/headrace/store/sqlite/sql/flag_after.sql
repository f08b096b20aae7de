-- This job has a line in relation.
UPDATE job SET flags = flags | 64 WHERE seq = ?1 AND flags & 64 = 0
