-- Names of the jobs of a priority that fell due between two looks at the clock.
SELECT DISTINCT name FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND priority = ?1 AND nextRun > ?2 AND nextRun <= ?3
