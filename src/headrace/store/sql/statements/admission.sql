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

-- name: expiry_put
-- By when a job must have started: a moment, or how long after it is due; and when that is, as far as it is known.
INSERT INTO expiry (job, moment, patience, at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (job) DO UPDATE SET moment = excluded.moment, patience = excluded.patience, at = excluded.at

-- name: expiry_get
-- The same, of a job.
SELECT moment, patience, at FROM expiry WHERE job = ?1

-- name: expiry_begin
-- A job waits, and is due then (null: when other jobs have ended).
UPDATE expiry SET at = coalesce(moment, patience + ?2) WHERE job = ?1

-- name: expiry_end
-- A job waits no more.
UPDATE expiry SET at = NULL WHERE job = ?1

-- name: expiry_delete
-- A job does not expire any more.
DELETE FROM expiry WHERE job = ?1

-- name: flag_expires
-- Say in a job's row whether it expires.
UPDATE job SET flags = (flags & ~{EXPIRES}) | ?2 WHERE seq = ?1

-- name: expired
-- Jobs that have not started in time, wherever they wait.
SELECT seq, id, queue, state, priority, due, flags FROM expiry JOIN job ON job.seq = expiry.job
WHERE expiry.at < ?1
ORDER BY expiry.at, seq LIMIT ?2 /*lock*/

-- name: expired_heads
-- Those of them among the first of a queue's line.
SELECT line.seq, line.id, line.queue, line.state, line.priority, line.due, line.flags
FROM (
    SELECT seq, id, queue, state, priority, due, flags FROM job
    WHERE state = {READY} AND queue = ?1
    ORDER BY priority DESC, due, seq LIMIT ?2 /*lock*/
) AS line JOIN expiry ON expiry.job = line.seq
WHERE expiry.at < ?3
ORDER BY line.priority DESC, line.due, line.seq

-- name: fail_waiting
-- A job that waits fails.
UPDATE job SET state = {FAILED}, finished = ?2, failure = ?3, error = ?4 WHERE seq = ?1
