-- How many jobs that failed within a time are failed still.
SELECT count(*) FROM job WHERE state = 5 AND state >= 4 AND finished >= ?2 AND finished < ?3 AND queue = ?1
