-- The unique key of a job.
SELECT key FROM unique_key WHERE job = ?1
