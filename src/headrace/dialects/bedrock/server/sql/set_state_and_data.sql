-- A job moves to another state with other data.
UPDATE jobs SET state = ?2, data = ?3 WHERE jobID = ?1
