-- Children that a parent gets to see, in order.
SELECT jobID, state, CAST(data AS BLOB) FROM jobs
WHERE parentJobID = ?1 AND parentJobID != 0 AND state IN ('FINISHED', 'CANCELLED') ORDER BY jobID
