-- A job's way into line.

-- name: promote
-- Move what has fallen due into the lines of its queues, in bounded steps, but for jobs of lanes.
UPDATE job SET state = {READY}
WHERE seq IN (SELECT seq FROM job WHERE state = {SCHEDULED} AND due <= ?1 ORDER BY due LIMIT ?2 /*skip*/) AND flags & {LANED} = 0

-- name: promote_queue
-- The same for one queue.
UPDATE job SET state = {READY}
WHERE seq IN (
    SELECT seq FROM job WHERE state = {SCHEDULED} AND flags & {LANED} = 0 AND queue = ?2 AND due <= ?1 ORDER BY due LIMIT ?3 /*skip*/
)

-- name: scheduled_queues
-- The next queues, by name, that have scheduled jobs: from index entry to index entry.
WITH RECURSIVE scheduled (queue) AS (
    SELECT (SELECT queue FROM job WHERE state = {SCHEDULED} AND queue >= ?1 ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT queue FROM job WHERE state = {SCHEDULED} AND queue > scheduled.queue ORDER BY queue LIMIT 1)
    FROM scheduled WHERE scheduled.queue IS NOT NULL
    LIMIT ?2
)
SELECT queue FROM scheduled WHERE queue IS NOT NULL

-- name: jobs_by_seq
-- Jobs, as far as rules decide about them, by their rows.
SELECT {OF_JOB}, (SELECT name FROM session WHERE session.seq = job.session)
FROM job
WHERE seq IN (SELECT value FROM json_each(?1))
ORDER BY seq /*lock*/

-- name: jobs_by_id
-- The same, by their ids.
SELECT {OF_JOB}, (SELECT name FROM session WHERE session.seq = job.session)
FROM job
WHERE id IN (SELECT value FROM json_each(?1/*text*/))
ORDER BY seq /*lock*/

-- name: job_set
-- How a job is now. Its error and its data stay if there are no new ones, unless the error is to go.
UPDATE job SET
    task = ?2, queue = ?3, state = ?4, priority = ?5, due = ?6, flags = ?7, token = ?8, attempts = ?9, crashes = ?10,
    started = ?11, finished = ?12, deferred_since = ?13, failure = ?14,
    error = CASE WHEN ?17 = 1 THEN NULL ELSE coalesce(?15, error) END, data = coalesce(?16, data)
WHERE seq = ?1

-- name: job_flags
-- Only the flags of a job have changed.
UPDATE job SET flags = ?2 WHERE seq = ?1

-- name: lanes_due
-- Jobs of lanes that have fallen due in one queue.
SELECT seq FROM job
WHERE state = {SCHEDULED} AND flags & {LANED} = {LANED} AND queue = ?2 AND due <= ?1
ORDER BY due LIMIT ?3 /*lock*/

-- name: expiry_put
-- By when a job must have started: a moment, or how long after it is due; and when that is, as far as it is known.
INSERT INTO expiry (job, moment, patience, at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (job) DO UPDATE SET moment = excluded.moment, patience = excluded.patience, at = excluded.at

-- name: expiries_of
-- The same, of jobs, as it was asked for.
SELECT job, moment, patience FROM expiry WHERE job IN (SELECT value FROM json_each(?1))

-- name: expires_at
-- When that is.
SELECT at FROM expiry WHERE job = ?1

-- name: expiry_begin
-- A job waits, and is due then (null: when other jobs have ended).
UPDATE expiry SET at = coalesce(moment, patience + ?2) WHERE job = ?1

-- name: expiry_end
-- A job waits no more.
UPDATE expiry SET at = NULL WHERE job = ?1

-- name: expiry_delete
-- A job does not expire any more.
DELETE FROM expiry WHERE job = ?1

-- name: expiries_delete
-- The jobs are gone.
DELETE FROM expiry WHERE job IN (SELECT value FROM json_each(?1))

-- name: expired
-- Jobs that have not started in time, wherever they wait.
SELECT job FROM expiry WHERE at < ?1 ORDER BY at, job LIMIT ?2

-- name: late
-- Which of these jobs have not started in time?
SELECT job FROM expiry WHERE job IN (SELECT value FROM json_each(?1)) AND at < ?2
