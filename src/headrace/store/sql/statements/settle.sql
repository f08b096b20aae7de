-- Settling leases, and reports of running jobs.

-- name: holder
-- What a settle needs to know about a job before it changes it.
SELECT token, state, session, flags, crashes, max_crashes, due, deferred_since, queue, id, started FROM job WHERE seq = ?1 /*lock*/

-- name: done
-- Settle as done, if the session holds it with this token; not jobs with these flags, whose end concerns others.
UPDATE job SET
    state = {DONE}, result = ?4, started = coalesce(?5, started), finished = ?6, attempts = attempts + ?7,
    flags = (flags & ~{OF_ONE_RUN}) | ?8, data = coalesce(?9, data), error = NULL, failure = NULL, deferred_since = NULL
WHERE seq = ?1 AND token = ?2 AND session = ?3 AND state = {RUNNING} AND flags & ?10 = 0

-- name: done_together
-- Settle many as done that have no results, and began and ended together: by seq, not by all that the session holds. (OR
-- FAIL: as in `take`.)
UPDATE OR FAIL job SET
    state = {DONE}, result = NULL, started = coalesce(?4, started), finished = ?5, attempts = attempts + ?6,
    flags = flags & ~{OF_ONE_RUN}, error = NULL, failure = NULL, deferred_since = NULL
WHERE seq IN (SELECT value FROM json_each(?1))
    AND token = ?2 AND +session = ?3 AND state = {RUNNING} AND flags & ?7 = 0

-- name: complete
-- Mark a hand-out as completed by its task, if it still runs with this token.
UPDATE job SET flags = flags | ?3, result = ?4
WHERE seq = ?1 AND token = ?2 AND state = {RUNNING} AND flags & {COMPLETED} = 0

-- name: is_completed
-- Is a hand-out marked so?
SELECT 1 FROM job WHERE seq = ?1 AND token = ?2 AND state = {RUNNING} AND flags & {COMPLETED} <> 0

-- name: completed
-- Settle as done what was marked so. Its result is there.
UPDATE job SET
    state = {DONE}, started = coalesce(?2, started), finished = ?3, attempts = attempts + 1,
    flags = flags & ~({CANCELLING} | {SPARE} | {COMPLETED}), error = NULL, failure = NULL, deferred_since = NULL
WHERE seq = ?1

-- name: settle
-- Settle as anything but done: the new state has been worked out from the old one.
UPDATE job SET
    state = ?2, due = ?3, queue = coalesce(?4, queue), task = coalesce(?5, task),
    attempts = coalesce(attempts + ?6, 0), crashes = ?7, flags = ?8,
    started = coalesce(?9, started), finished = ?10, deferred_since = ?11, data = coalesce(?12, data),
    error = coalesce(?13, error), failure = coalesce(?14, failure)
WHERE seq = ?1

-- name: set_body
-- New arguments for a job that was moved to its next stage.
UPDATE job SET body = ?2, flags = (flags & ~{LARGE_BODY}) | ?3 WHERE seq = ?1

-- name: bump_token
-- A lease was taken away: whatever its holder still says about it is stale.
UPDATE job SET token = token + 1 WHERE seq = ?1

-- name: report
-- Progress and data of a running job.
UPDATE job SET
    progress_done = coalesce(?4, progress_done), progress_total = coalesce(?5, progress_total), data = coalesce(?6, data)
WHERE seq = ?1 AND token = ?2 AND session = ?3 AND state = {RUNNING}
RETURNING seq

-- name: lease_state
-- Is a lease still held, and is it to stop?
SELECT flags & {CANCELLING} FROM job WHERE seq = ?1 AND token = ?2 AND session = ?3 AND state = {RUNNING}

-- name: unspare
-- A lease that was held ready has been started.
UPDATE job SET flags = flags & ~{SPARE} WHERE seq = ?1 AND session = ?2 AND state = {RUNNING}
