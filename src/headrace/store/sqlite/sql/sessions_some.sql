-- Some open sessions, from one on.
SELECT seq, id, timeout, seen FROM session WHERE closed IS NULL AND seq >= ?1 ORDER BY seq LIMIT ?2
