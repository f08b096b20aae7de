-- Lanes that have nothing left to remember.
SELECT seq FROM lane WHERE unfinished = 0 AND forget_at <= ?1 ORDER BY forget_at LIMIT ?2
