-- A job, if a session holds it.
SELECT seq, token, id, flags FROM job WHERE seq = ?1 AND state = 2 AND session = ?2
