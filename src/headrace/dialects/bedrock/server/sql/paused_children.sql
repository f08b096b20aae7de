-- Children that wait for their parent to finish its first pass.
SELECT jobID, CAST(name AS BLOB) FROM jobs WHERE parentJobID = ?1 AND parentJobID != 0 AND state = 'PAUSED'
