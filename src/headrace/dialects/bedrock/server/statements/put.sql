-- New jobs, and the ones that a unique job may clash with.

-- name: insert
-- A new job.
INSERT INTO jobs (created, state, name, nextRun, repeat, data, priority, parentJobID, retryAfter, sequentialKey)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)

-- name: by_name
-- The oldest job of a name and a kind (real or mocked), in whatever state: what a unique job may clash with.
SELECT jobID, CAST(parentJobID AS INTEGER), CAST(data AS BLOB) FROM jobs WHERE name = ?1 AND {MOCKED} = ?2 ORDER BY jobID LIMIT 1

-- name: merge
-- A unique job that was there already takes over the new one's repeat and priority, and merges its data.
UPDATE jobs SET repeat = ?2, priority = ?3, data = json_patch(CASE WHEN json_valid(data) THEN data ELSE '{}' END, ?4)
WHERE jobID = ?1

-- name: kind_of_json
-- What kind of JSON is this text? NULL when it is not JSON.
SELECT CASE WHEN json_valid(?1) THEN json_type(?1) END

-- name: mock
-- Data that marks a job as test traffic.
SELECT json_set(?1, '$.mockRequest', json('true'))

-- name: unmock
-- The same data of a job that is not test traffic.
SELECT json_remove(?1, '$.mockRequest')
