-- A job's way into line.

-- name: placement
-- What admission needs to know about a job.
SELECT seq, id, queue, state, priority, due, flags FROM job WHERE seq = ?1

-- name: placement_by_id
-- The same, by its id.
SELECT seq, id, queue, state, priority, due, flags FROM job WHERE id = ?1

-- name: stand
-- A job's place: its state while it waits, and its due time.
UPDATE job SET state = ?2, due = ?3 WHERE seq = ?1

-- name: promote
-- Move what has fallen due into the lines of its queues, in bounded steps.
UPDATE job SET state = {READY}
WHERE seq IN (SELECT seq FROM job WHERE state = {SCHEDULED} AND due <= ?1 ORDER BY due LIMIT ?2)

-- name: promote_queue
-- The same for one queue.
UPDATE job SET state = {READY}
WHERE seq IN (SELECT seq FROM job WHERE state = {SCHEDULED} AND queue = ?2 AND due <= ?1 ORDER BY due LIMIT ?3)

-- name: revive
-- Put a job that ended back in line, as if it were new.
UPDATE job SET
    state = {READY}, due = ?2, attempts = 0, crashes = 0, finished = NULL, deferred_since = NULL, error = NULL, failure = NULL
WHERE seq = ?1
