-- Jobs of a name and a priority that are due, first come first. (A nextRun that looks like a number is text, too.)
SELECT created, jobID, state, name, nextRun, lastRun, repeat, data, priority, parentJobID, retryAfter, sequentialKey
FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND name = ?1 AND priority = ?2 AND nextRun <= ?3
    AND (typeof(nextRun) = 'text' OR CAST(nextRun AS TEXT) <= ?3)
ORDER BY nextRun, jobID
