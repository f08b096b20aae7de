-- Remove a job's row.
DELETE FROM job WHERE seq = ?1
