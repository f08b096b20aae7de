-- Settling leases, and reports of running jobs.

-- name: done
-- Settle as done, if the session holds it with this token; not jobs with these flags, whose end concerns others. (By seq, not by all
-- that the session holds.)
UPDATE job SET
    state = {DONE}, result = ?4, started = coalesce(?5, started), finished = ?6, attempts = attempts + ?7,
    flags = (flags & ~{OF_ONE_RUN}) | ?8, data = coalesce(?9, data), error = NULL, failure = NULL, deferred_since = NULL
WHERE seq = ?1 AND token = ?2 AND +session = ?3 AND +state = {RUNNING} AND flags & ?10 = 0

-- name: done_together
-- Settle many as done that have no results, and began and ended together: by seq, not by all that the session holds. (OR
-- FAIL: as in `take`.)
UPDATE OR FAIL job SET
    state = {DONE}, result = NULL, started = coalesce(?4, started), finished = ?5, attempts = attempts + ?6,
    flags = flags & ~{OF_ONE_RUN}, error = NULL, failure = NULL, deferred_since = NULL
WHERE seq IN (SELECT value FROM json_each(?1))
    AND token = ?2 AND +session = ?3 AND +state = {RUNNING} AND flags & ?7 = 0

-- name: complete
-- Mark a hand-out as completed by its task, if it still runs with this token.
UPDATE job SET flags = flags | ?3, result = ?4
WHERE seq = ?1 AND token = ?2 AND +state = {RUNNING} AND flags & {COMPLETED} = 0

-- name: is_completed
-- Is a hand-out marked so?
SELECT 1 FROM job WHERE seq = ?1 AND token = ?2 AND +state = {RUNNING} AND flags & {COMPLETED} <> 0

-- name: completed
-- Settle as done what was marked so. Its result is there.
UPDATE job SET
    state = {DONE}, started = coalesce(?2, started), finished = ?3, attempts = attempts + 1,
    flags = flags & ~({CANCELLING} | {SPARE} | {UPDATED} | {COMPLETED}), error = NULL, failure = NULL, deferred_since = NULL
WHERE seq = ?1

-- name: set_body
-- New arguments for a job. (Its flags say whether they are large.)
UPDATE job SET body = ?2 WHERE seq = ?1

-- name: report
-- Progress and data of a running job.
UPDATE job SET
    progress_done = coalesce(?2, progress_done), progress_total = coalesce(?3, progress_total), data = coalesce(?4, data)
WHERE seq = ?1

-- name: data_of
-- The data of jobs.
SELECT seq, data FROM job WHERE seq IN (SELECT value FROM json_each(?1))

-- name: data_prints
-- What tells the data of jobs from other data: here, itself.
SELECT seq, data FROM job WHERE seq IN (SELECT value FROM json_each(?1))

-- name: unspare
-- Leases that were held ready have been started.
UPDATE job SET flags = flags & ~{SPARE}
WHERE seq IN (SELECT value FROM json_each(?1)) AND +session = ?2 AND +state = {RUNNING}
