-- How many jobs have ended as done after a given time, up to a limit.
SELECT count(*) FROM (SELECT 1 FROM job WHERE state = 4 AND state >= 4 AND finished > ?1 LIMIT ?2)
