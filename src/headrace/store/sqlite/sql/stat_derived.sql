-- The times of jobs of a queue that were done within a time and are still kept.
SELECT queue, due, started, finished FROM job
WHERE state = 4 AND state >= 4 AND finished >= ?2 AND finished < ?3 AND queue = ?1
