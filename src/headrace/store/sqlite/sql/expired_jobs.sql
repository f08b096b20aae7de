-- Ended jobs of one state that ended before a given time, oldest first.
SELECT seq, flags, queue, due, started, finished FROM job
WHERE state = ?1 AND state >= 4 AND finished < ?2
ORDER BY finished LIMIT ?3
