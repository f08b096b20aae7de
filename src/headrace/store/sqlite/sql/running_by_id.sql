-- Who runs a job.
SELECT seq, token, session FROM job WHERE id = ?1 AND state = 2
