-- Cancel a job that waits, or that has failed.
UPDATE job SET state = 6, finished = ?2 WHERE seq = ?1
