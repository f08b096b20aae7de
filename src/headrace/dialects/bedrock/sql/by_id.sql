-- One job, all columns in their order.
SELECT created, jobID, state, name, nextRun, lastRun, repeat, data, priority, parentJobID, retryAfter, sequentialKey
FROM jobs WHERE jobID = ?1
