-- Remove a job's large values.
DELETE FROM blob WHERE job = ?1
