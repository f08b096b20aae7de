-- A job moves to another state.
UPDATE jobs SET state = ?2 WHERE jobID = ?1
