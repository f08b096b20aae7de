-- Names of the jobs of a kind and a priority that fell due between two looks at the clock.
SELECT DISTINCT CAST(name AS BLOB) FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {mocked} = ?1 AND priority = ?2 AND nextRun > ?3 AND nextRun <= ?4
