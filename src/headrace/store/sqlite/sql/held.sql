-- The first jobs that a session holds.
SELECT seq, token, id, flags FROM job WHERE state = 2 AND session = ?1 ORDER BY seq LIMIT ?2
