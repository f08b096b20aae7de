-- Jobs of a priority that are due, first come first, and whether their names match a pattern.
SELECT jobID, name GLOB ?3 FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND priority = ?1 AND nextRun <= ?2
    AND (typeof(nextRun) = 'text' OR CAST(nextRun AS TEXT) <= ?2)
ORDER BY nextRun, jobID LIMIT ?4
