-- The lines of jobs that are due, and handing them out.

-- name: top_priority
-- The highest priority below ?2 that waiting jobs of a kind have.
SELECT priority FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {MOCKED} = ?1 AND priority < ?2
ORDER BY priority DESC LIMIT 1

-- name: due
-- Jobs of a kind and a priority that are due, first come first, and whether their names match a pattern.
SELECT jobID, CAST(nextRun AS BLOB), name GLOB ?4 FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {MOCKED} = ?1 AND priority = ?2 AND nextRun <= ?3
    AND (typeof(nextRun) = 'text' OR CAST(nextRun AS TEXT) <= ?3)
ORDER BY nextRun, jobID LIMIT ?5

-- name: top_priority_of_name
-- The highest priority below ?3 that waiting jobs of a kind and a name have.
SELECT priority FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {MOCKED} = ?1 AND name = CAST(?2 AS TEXT) AND priority < ?3
ORDER BY priority DESC LIMIT 1

-- name: due_of_name
-- Jobs of a kind, a name and a priority that are due, first come first. (A nextRun that looks like a number is text, too.)
SELECT jobID, CAST(nextRun AS BLOB) FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {MOCKED} = ?1 AND name = CAST(?2 AS TEXT) AND priority = ?3 AND nextRun <= ?4
    AND (typeof(nextRun) = 'text' OR CAST(nextRun AS TEXT) <= ?4)
ORDER BY nextRun, jobID

-- name: next_name
-- The first name at or after ?2, and before ?3, that waiting jobs of a kind have, and whether it matches a pattern.
SELECT CAST(name AS BLOB), name GLOB ?4 FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {MOCKED} = ?1 AND name >= ?2 AND name < ?3
ORDER BY name LIMIT 1

-- name: name_after
-- The first name after ?2, and before ?3, that waiting jobs of a kind have, and whether it matches a pattern.
SELECT CAST(name AS BLOB), name GLOB ?4 FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {MOCKED} = ?1 AND name > CAST(?2 AS TEXT) AND name < ?3
ORDER BY name LIMIT 1

-- name: matches
-- Does a name match a pattern?
SELECT ?1 GLOB ?2

-- name: start
-- A worker has it: no time to try again, so it stays RUNNING until the worker reports.
UPDATE jobs SET state = 'RUNNING', lastRun = ?2 WHERE jobID = ?1

-- name: start_with_retry
-- A worker has it until its retryAfter has passed; then it is in line again.
UPDATE jobs SET state = 'RUNQUEUED', lastRun = ?2, nextRun = ?3 WHERE jobID = ?1

-- name: count_try
-- One try more, and perhaps when it was due; what is not JSON stays as it is.
UPDATE jobs SET data = CASE
    WHEN NOT json_valid(data) THEN data
    WHEN ?3 IS NULL THEN json_set(data, '$.retryAfterCount', ?2)
    ELSE json_set(data, '$.retryAfterCount', ?2, '$.originalNextRun', ?3)
END
WHERE jobID = ?1

-- name: next_due
-- When the next job of a kind and a priority falls due.
SELECT CAST(nextRun AS BLOB) FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {MOCKED} = ?1 AND priority = ?2 AND nextRun > ?3
ORDER BY nextRun LIMIT 1

-- name: fallen_due
-- Names of the jobs of a kind and a priority that fell due between two looks at the clock.
SELECT DISTINCT CAST(name AS BLOB) FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {MOCKED} = ?1 AND priority = ?2 AND nextRun > ?3 AND nextRun <= ?4
