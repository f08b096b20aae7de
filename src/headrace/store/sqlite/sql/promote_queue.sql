-- The same for one queue.
UPDATE job SET state = 1
WHERE seq IN (SELECT seq FROM job WHERE state = 0 AND queue = ?2 AND due <= ?1 ORDER BY due LIMIT ?3)
