-- The oldest job that waits for its turn in a sequence.
SELECT jobID, CAST(name AS BLOB), CAST(nextRun AS BLOB) FROM jobs
WHERE sequentialKey = ?1 AND sequentialKey != '' AND state = 'WAITING' ORDER BY created, jobID LIMIT 1
