-- Remove a job's claim on its unique key.
DELETE FROM unique_key WHERE job = ?1
