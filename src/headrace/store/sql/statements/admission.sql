-- A job's way into line.

-- name: placement
-- What admission needs to know about a job.
SELECT seq, id, queue, state, priority, due, flags FROM job WHERE seq = ?1 /*lock*/

-- name: placement_by_id
-- The same, by its id.
SELECT seq, id, queue, state, priority, due, flags FROM job WHERE id = ?1 /*lock*/

-- name: stand
-- A job's place: its state while it waits, and its due time.
UPDATE job SET state = ?2, due = ?3 WHERE seq = ?1

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

-- name: lanes_due
-- Jobs of lanes that have fallen due in one queue.
SELECT seq, id, queue, state, priority, due, flags FROM job
WHERE state = {SCHEDULED} AND flags & {LANED} = {LANED} AND queue = ?2 AND due <= ?1
ORDER BY due LIMIT ?3 /*lock*/

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

-- name: revive
-- Put a job that ended back in line, as if it were new.
UPDATE job SET
    state = {READY}, due = ?2, attempts = 0, crashes = 0, finished = NULL, deferred_since = NULL, error = NULL, failure = NULL
WHERE seq = ?1
