-- The times of a job that is done.
SELECT queue, due, started, finished FROM job WHERE seq = ?1 AND state = 4
