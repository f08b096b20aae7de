-- Jobs of a kind and a priority that are due, first come first, and whether their names match a pattern.
SELECT jobID, name GLOB ?4 FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {mocked} = ?1 AND priority = ?2 AND nextRun <= ?3
    AND (typeof(nextRun) = 'text' OR CAST(nextRun AS TEXT) <= ?3)
ORDER BY nextRun, jobID LIMIT ?5
