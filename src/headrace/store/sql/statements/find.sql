-- Looking at jobs.

-- name: snapshot
-- A job, whole.
SELECT
    job.seq, job.id, task, queue, state, priority, body, options, created, due, started, finished, attempts, crashes,
    max_crashes, token, session.name, data, progress_done, progress_total, result, error, failure, flags, deferred_since
FROM job LEFT JOIN session ON session.seq = job.session

-- name: walk
-- The newest jobs before one, so many.
SELECT seq FROM job WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2

-- name: walk_tag
-- The same, of those with a tag,
SELECT job FROM tag WHERE tag = ?3 AND job < ?1 ORDER BY job DESC LIMIT ?2

-- name: walk_tracked
-- of tracked ones,
SELECT job FROM tracked WHERE job < ?1 ORDER BY job DESC LIMIT ?2

-- name: walk_schedule
-- of those of a schedule (before the negative of a number, as its index has them),
SELECT job FROM recurring WHERE schedule = ?3 AND -job > ?1 ORDER BY -job LIMIT ?2

-- name: walk_worker
-- of those that run under a worker's name,
SELECT seq FROM job
WHERE state = {RUNNING} AND session IN (SELECT seq FROM session WHERE closed IS NULL AND name = ?3 /*array*/) AND +seq < ?1
ORDER BY +seq DESC LIMIT ?2

-- name: walk_failed
-- of failed ones,
SELECT seq FROM job WHERE state = {FAILED} AND seq > 0 AND seq < ?1 ORDER BY seq DESC LIMIT ?2

-- name: walk_group
-- and of those that have failed in one way (in the same way).
SELECT seq FROM job WHERE state = {FAILED} AND failure = ?3 AND -seq > ?1 ORDER BY -seq LIMIT ?2

-- name: counts
-- How many jobs are in which state, per queue; each state by the index that lists it.
SELECT queue, {SCHEDULED}, count(*) FROM job INDEXED BY job_scheduled WHERE state = {SCHEDULED} GROUP BY queue
UNION ALL SELECT queue, {READY}, count(*) FROM job INDEXED BY job_ready WHERE state = {READY} GROUP BY queue
UNION ALL SELECT queue, {RUNNING}, count(*) FROM job INDEXED BY job_held WHERE state = {RUNNING} GROUP BY queue
UNION ALL SELECT queue, {BLOCKED}, count(*) FROM job INDEXED BY job_blocked WHERE state = {BLOCKED} GROUP BY queue
UNION ALL SELECT queue, state, count(*) FROM job INDEXED BY job_finished WHERE state >= {DONE} GROUP BY queue, state

-- name: oldest
-- When the first ready job of each priority was due, queue by queue, from index entry to index entry, and when the first scheduled ones
-- fall due, or did. Of many priorities it looks at the {LEVELS} highest and the {LEVELS} lowest.
WITH RECURSIVE ready (queue) AS (
    SELECT (SELECT queue FROM job WHERE state = {READY} AND queue >= '' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT queue FROM job WHERE state = {READY} AND queue > ready.queue ORDER BY queue LIMIT 1)
    FROM ready WHERE ready.queue IS NOT NULL
),
high (queue, priority, number) AS (
    SELECT queue, (SELECT priority FROM job WHERE state = {READY} AND job.queue = ready.queue ORDER BY priority DESC LIMIT 1), 1
    FROM ready WHERE ready.queue IS NOT NULL
    UNION ALL
    SELECT
        queue,
        (SELECT priority FROM job
         WHERE state = {READY} AND job.queue = high.queue AND job.priority < high.priority ORDER BY priority DESC LIMIT 1),
        number + 1
    FROM high WHERE high.priority IS NOT NULL AND number < {LEVELS}
),
low (queue, priority, number) AS (
    SELECT queue, (SELECT priority FROM job WHERE state = {READY} AND job.queue = high.queue ORDER BY priority LIMIT 1), 1
    FROM high WHERE high.priority IS NOT NULL AND number = {LEVELS}
    UNION ALL
    SELECT
        queue,
        (SELECT priority FROM job
         WHERE state = {READY} AND job.queue = low.queue AND job.priority > low.priority ORDER BY priority LIMIT 1),
        number + 1
    FROM low WHERE low.priority IS NOT NULL AND number < {LEVELS}
),
scheduled (queue) AS (
    SELECT (SELECT queue FROM job WHERE state = {SCHEDULED} AND queue >= '' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT queue FROM job WHERE state = {SCHEDULED} AND queue > scheduled.queue ORDER BY queue LIMIT 1)
    FROM scheduled WHERE scheduled.queue IS NOT NULL
)
SELECT queue, {READY}, (SELECT due FROM job
    WHERE state = {READY} AND job.queue = high.queue AND job.priority = high.priority ORDER BY due LIMIT 1)
FROM high WHERE priority IS NOT NULL
UNION ALL
SELECT queue, {READY}, (SELECT due FROM job
    WHERE state = {READY} AND job.queue = low.queue AND job.priority = low.priority ORDER BY due LIMIT 1)
FROM low WHERE priority IS NOT NULL
UNION ALL
SELECT queue, {SCHEDULED}, (SELECT due FROM job
    WHERE state = {SCHEDULED} AND job.queue = scheduled.queue AND flags & {LANED} = 0 ORDER BY due LIMIT 1)
FROM scheduled WHERE queue IS NOT NULL
UNION ALL
SELECT queue, {SCHEDULED}, (SELECT due FROM job
    WHERE state = {SCHEDULED} AND job.queue = scheduled.queue AND flags & {LANED} = {LANED} ORDER BY due LIMIT 1)
FROM scheduled WHERE queue IS NOT NULL

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
