-- Find a job's row.
SELECT seq, state, flags, queue, unique_key FROM job WHERE id = ?1
