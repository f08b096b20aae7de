-- Ends of runs.

-- name: set_state
-- A job moves to another state.
UPDATE jobs SET state = ?2 WHERE jobID = ?1

-- name: set_state_and_data
-- A job moves to another state with other data.
UPDATE jobs SET state = ?2, data = ?3 WHERE jobID = ?1

-- name: queue_again
-- Back in line after a run.
UPDATE jobs SET state = 'QUEUED', nextRun = ?2, name = ?3, priority = ?4, data = ?5 WHERE jobID = ?1

-- name: forget_tries
-- Data without its count of tries, otherwise untouched; NULL when it is not JSON.
SELECT CASE WHEN json_valid(?1) THEN
    CASE WHEN json_type(?1, '$.retryAfterCount') IS NULL THEN ?1 ELSE json_remove(?1, '$.retryAfterCount') END
END

-- name: delete
-- Remove a job.
DELETE FROM jobs WHERE jobID = ?1
