-- Ended jobs of one state that ended before a given time, oldest first, from behind a given place on, and whether each returned
-- something.
SELECT seq, flags, queue, due, started, finished, result IS NOT NULL OR flags & 32 AS returned FROM job
WHERE state = ?1 AND state >= 4 AND finished < ?2 AND (finished, queue, seq) > (?4, ?5, ?6)
ORDER BY finished, queue, seq LIMIT ?3
