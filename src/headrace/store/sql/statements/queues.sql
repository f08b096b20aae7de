-- Queues: paused or not, their limits, and which have work.

-- name: control_get
-- A queue's controls.
SELECT queue, running_limit, paused_by, paused_at FROM control WHERE queue = ?1

-- name: controls
-- The controls of all queues.
SELECT queue, running_limit, paused_by, paused_at FROM control ORDER BY queue

-- name: control_set
-- Set a queue's controls.
INSERT INTO control (queue, running_limit, paused_by, paused_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (queue) DO UPDATE SET running_limit = ?2, paused_by = ?3, paused_at = ?4

-- name: control_delete
-- A queue has no controls any more.
DELETE FROM control WHERE queue = ?1

-- name: queue_running
-- How many jobs of a queue run, up to a number: session by session, as only queues with a limit are counted.
SELECT count(*) FROM (
    SELECT 1 FROM session CROSS JOIN job INDEXED BY job_held ON job.session = session.seq AND job.state = {RUNNING} AND job.queue = ?1
    WHERE session.closed IS NULL LIMIT ?2
) AS found

-- name: queue_running_some
-- Some of the jobs of a queue that run, and their workers.
SELECT job.id, session.name
FROM session CROSS JOIN job INDEXED BY job_held ON job.session = session.seq AND job.state = {RUNNING} AND job.queue = ?1
WHERE session.closed IS NULL
ORDER BY job.seq LIMIT ?2

-- name: ready_queues
-- The next queues, by name, that have ready jobs: from index entry to index entry. (queue > '': the last step finds none.)
WITH RECURSIVE ready (queue) AS (
    SELECT (SELECT queue FROM job WHERE state = {READY} AND queue >= ?1 ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT queue FROM job WHERE state = {READY} AND queue > ready.queue ORDER BY queue LIMIT 1)
    FROM ready WHERE ready.queue IS NOT NULL
    LIMIT ?2
)
SELECT queue FROM ready WHERE queue IS NOT NULL

-- name: due_queue
-- The queue of the first job that has fallen due and is not in line yet.
SELECT queue FROM job WHERE state = {SCHEDULED} AND due <= ?1 ORDER BY due LIMIT 1
