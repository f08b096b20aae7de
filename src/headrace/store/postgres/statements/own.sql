-- Statements of headrace.store.sql that PostgreSQL writes in its own way.

-- name: put
-- Insert a job; one that is there already stays as it is.
INSERT INTO job (id, task, queue, state, priority, due, created, token, attempts, crashes, max_crashes, flags, body, options, unique_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (id) DO NOTHING

-- name: unspare
-- Leases that were held ready have been started. A row that is locked is left: a renewal waits for no job.
UPDATE job SET flags = flags & ~{SPARE}
WHERE seq IN (
    SELECT seq FROM job WHERE seq IN (SELECT value FROM json_each(?1)) AND +session = ?2 AND +state = {RUNNING} /*skip*/
)

-- name: data_prints
-- What tells the data of jobs from other data, without sending it.
SELECT seq, sha256(data) FROM job WHERE seq IN (SELECT value FROM json_each(?1))

-- name: absorb
-- Bring in what callers have completed of some runs.
SELECT seq, flags FROM absorb(?1)

-- name: complete
-- Mark a hand-out as completed by its task, if it still runs with this token.
UPDATE job SET flags = flags | ?3, result = ?4
WHERE seq = ?1 AND token = ?2 AND +state = {RUNNING} AND flags & {COMPLETED} = 0
    AND NOT EXISTS (SELECT 1 FROM completion WHERE completion.job = ?1 AND completion.token = ?2)

-- name: is_completed
-- Has its task completed a hand-out?
SELECT 1 FROM job WHERE seq = ?1 AND token = ?2 AND +state = {RUNNING} AND (
    flags & {COMPLETED} <> 0 OR EXISTS (SELECT 1 FROM completion WHERE completion.job = ?1 AND completion.token = ?2)
)

-- name: completions_forget
-- Forget what was completed of runs that are over. (NOT EXISTS may be planned as a walk through all jobs.)
DELETE FROM completion
WHERE (SELECT job.token = completion.token AND +job.state = {RUNNING} FROM job WHERE job.seq = completion.job) IS NOT TRUE

-- name: stat_add
-- Append to the statistics of a day: a sum would be a lock of all that add to it. (Sweeps fold them.)
INSERT INTO stat_delta (day, queue, kind, bucket, count, total, squares) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: stat_kept
-- The statistics of a day, as far as they were summed up, and what was appended since.
SELECT kind, bucket, count, total, squares FROM stat WHERE queue = ?1 AND day = ?2
UNION ALL SELECT kind, bucket, count, total, squares FROM stat_delta WHERE queue = ?1 AND day = ?2

-- name: stat_fold
-- Add up what was appended.
WITH gone AS (
    DELETE FROM stat_delta WHERE ctid = ANY (ARRAY(SELECT ctid FROM stat_delta LIMIT {FOLDED_AT_ONCE} FOR UPDATE SKIP LOCKED)) RETURNING *
)
INSERT INTO stat (day, queue, kind, bucket, count, total, squares)
SELECT day, queue, kind, bucket, sum(count), sum(total), sum(squares) FROM gone GROUP BY day, queue, kind, bucket
ON CONFLICT (day, queue, kind, bucket) DO UPDATE SET
    count = stat.count + excluded.count, total = stat.total + excluded.total, squares = stat.squares + excluded.squares

-- name: tags_fold
-- Add up what was appended about tags.
SELECT fold_tags()

-- name: tags_most
-- The most used words: those that were counted, and what was appended since.
WITH recent AS MATERIALIZED (
    SELECT tag, sum(jobs)::bigint AS jobs FROM tag_delta GROUP BY tag
), counted AS (
    SELECT tag, jobs FROM tag_count ORDER BY jobs DESC, tag LIMIT ?1 + (SELECT count(*) FROM recent)
), found AS (
    SELECT tag, jobs FROM counted WHERE tag NOT IN (SELECT tag FROM recent)
    UNION ALL SELECT tag, jobs FROM tag_count WHERE tag = ANY (ARRAY(SELECT tag FROM recent))
    UNION ALL SELECT tag, jobs FROM recent
)
SELECT tag, sum(jobs)::bigint FROM found GROUP BY tag HAVING sum(jobs) > 0 ORDER BY 2 DESC, 1 LIMIT ?1

-- name: failure_put
-- Append a failure of a group.
INSERT INTO failing_delta (name, at) VALUES (?1, ?2)

-- name: failures_of_groups
-- Failures of groups that were appended.
SELECT name, at FROM failing_delta WHERE name IN (SELECT value FROM json_each(?1/*text*/))

-- name: failures_fold
-- Take some failures that were appended.
DELETE FROM failing_delta WHERE ctid = ANY (ARRAY(SELECT ctid FROM failing_delta LIMIT ?1 FOR UPDATE SKIP LOCKED)) RETURNING name, at

-- name: unfolded
-- Is there anything that sweeps have not folded, or forgotten?
SELECT 1 WHERE EXISTS (
    SELECT 1 FROM completion
    WHERE (SELECT job.token = completion.token AND +job.state = {RUNNING} FROM job WHERE job.seq = completion.job) IS NOT TRUE
) OR EXISTS (SELECT 1 FROM stat_delta) OR EXISTS (SELECT 1 FROM tag_delta) OR EXISTS (SELECT 1 FROM failing_delta)

-- name: event_put
-- Write an event.
WITH numbered AS (
    INSERT INTO event_counter AS counter (one, newest) VALUES (1, 1)
    ON CONFLICT (one) DO UPDATE SET newest = counter.newest + 1 RETURNING newest
)
INSERT INTO event (seq, at, what, job, task, queue, worker, detail, tracked)
SELECT newest, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM numbered

-- name: event_newest
-- The number of the newest event there ever was.
SELECT newest FROM event_counter

-- name: event_trim
-- So many events are kept.
DELETE FROM event WHERE seq <= (SELECT newest FROM event_counter) - ?1

-- name: unique_take
-- Give a unique key to a job, unless another has got it since it was looked up.
SELECT take_key(?1, ?2, ?3, ?4)

-- name: sweep_again
-- There is more to sweep: any process may begin at once.
UPDATE upkeep SET swept = 0

-- name: carried
-- What leases carry: bodies, large ones too, options and data. Read after the commit: a client that stands still keeps no lock.
SELECT
    seq, CASE WHEN flags & {LARGE_BODY} != 0 THEN coalesce((SELECT bytes FROM blob WHERE job = seq AND kind = {BODY}), body) ELSE body END,
    options, data
FROM job WHERE seq IN (SELECT value FROM json_each(?1))

-- name: arrivals
-- Jobs that callers have put in transactions of theirs, and that the rules have not brought in yet.
SELECT seq, at, id, job FROM arrival ORDER BY seq LIMIT ?1

-- name: arrivals_left
-- Those of them that no other transaction has brought in, or does.
SELECT seq FROM arrival WHERE seq IN (SELECT value FROM json_each(?1)) FOR UPDATE SKIP LOCKED

-- name: arrivals_delete
-- The rules have brought these in.
DELETE FROM arrival WHERE seq IN (SELECT value FROM json_each(?1))
