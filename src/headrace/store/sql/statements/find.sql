-- Looking at jobs.

-- name: snapshot
-- A job, whole.
SELECT
    job.seq, job.id, task, queue, state, priority, body, options, created, due, started, finished, attempts, crashes,
    max_crashes, token, session.name, data, progress_done, progress_total, result, error, failure, flags, deferred_since
FROM job LEFT JOIN session ON session.seq = job.session

-- name: floor
-- How far down one look for jobs goes.
SELECT seq FROM job WHERE seq < ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2

-- name: counts
-- How many jobs are in which state, per queue; each state by the index that lists it.
SELECT queue, {SCHEDULED}, count(*) FROM job INDEXED BY job_scheduled WHERE state = {SCHEDULED} GROUP BY queue
UNION ALL SELECT queue, {READY}, count(*) FROM job INDEXED BY job_ready WHERE state = {READY} GROUP BY queue
UNION ALL SELECT queue, {RUNNING}, count(*) FROM job INDEXED BY job_held WHERE state = {RUNNING} GROUP BY queue
UNION ALL SELECT queue, {BLOCKED}, count(*) FROM job INDEXED BY job_blocked WHERE state = {BLOCKED} GROUP BY queue
UNION ALL SELECT queue, state, count(*) FROM job INDEXED BY job_finished WHERE state >= {DONE} GROUP BY queue, state

-- name: tags_most
-- The most used words.
SELECT tag, jobs FROM tag_count ORDER BY jobs DESC, tag LIMIT ?1

-- name: failures
-- How many jobs have failed of what, most first.
SELECT coalesce(failure, ''), count(*) FROM job WHERE state = {FAILED} GROUP BY failure ORDER BY 2 DESC, 1 LIMIT ?1

-- name: state_of
-- The state of a job.
SELECT state FROM job WHERE id = ?1

-- name: seqs
-- The rows of jobs, by their ids.
SELECT seq, id FROM job WHERE id IN (SELECT value FROM json_each(?1/*text*/))

-- name: key_holders
-- The ids of the jobs that have unique keys.
SELECT unique_key.key, job.id
FROM unique_key JOIN job ON job.seq = unique_key.job
WHERE unique_key.key IN (SELECT value FROM json_each(?1/*text*/))
