-- How many jobs a queue has ready, up to a limit.
SELECT count(*) FROM (SELECT 1 FROM job WHERE state = 1 AND queue = ?1 LIMIT ?2)
