-- The states of a job's children.
SELECT CAST(state AS BLOB) FROM jobs WHERE parentJobID = ?1 AND parentJobID != 0 GROUP BY state
