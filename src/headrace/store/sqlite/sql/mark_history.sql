-- This job has lines in `history`.
UPDATE job SET flags = flags | 4 WHERE seq = ?1 AND flags & 4 = 0
