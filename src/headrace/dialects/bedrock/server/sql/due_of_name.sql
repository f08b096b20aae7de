-- Jobs of a kind, a name and a priority that are due, first come first. (A nextRun that looks like a number is text, too.)
SELECT CAST(created AS BLOB), jobID, CAST(state AS BLOB), CAST(name AS BLOB), CAST(nextRun AS BLOB), CAST(lastRun AS BLOB),
    CAST(repeat AS BLOB), CAST(data AS BLOB), CAST(priority AS INTEGER), CAST(parentJobID AS INTEGER),
    CAST(retryAfter AS BLOB), CAST(sequentialKey AS BLOB)
FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {mocked} = ?1 AND name = CAST(?2 AS TEXT) AND priority = ?3 AND nextRun <= ?4
    AND (typeof(nextRun) = 'text' OR CAST(nextRun AS TEXT) <= ?4)
ORDER BY nextRun, jobID
