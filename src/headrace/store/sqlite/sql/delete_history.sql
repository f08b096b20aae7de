-- Remove a job's history.
DELETE FROM history WHERE job = ?1
