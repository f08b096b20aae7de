-- The states of a job's children.
SELECT DISTINCT state FROM jobs WHERE parentJobID = ?1 AND parentJobID != 0
