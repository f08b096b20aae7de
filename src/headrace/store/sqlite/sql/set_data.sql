-- Data that a job begins with.
UPDATE job SET data = ?2 WHERE id = ?1
