-- Statements of headrace.store.sql that PostgreSQL writes in its own way.

-- name: put
-- Insert a job; one that is there already stays as it is.
INSERT INTO job (id, task, queue, state, priority, due, created, token, attempts, crashes, max_crashes, flags, body, options, unique_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (id) DO NOTHING

-- name: ready_queues
-- The next queues, by name, that have ready jobs: from index entry to index entry.
WITH RECURSIVE ready (queue) AS (
    SELECT (SELECT queue FROM job WHERE state = {READY} AND queue >= ?1 ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT queue FROM job WHERE state = {READY} AND queue > ready.queue ORDER BY queue LIMIT 1)
    FROM ready WHERE ready.queue IS NOT NULL
)
SELECT queue FROM ready WHERE queue IS NOT NULL LIMIT ?2

-- name: scheduled_queues
-- The next queues, by name, that have scheduled jobs: from index entry to index entry.
WITH RECURSIVE scheduled (queue) AS (
    SELECT (SELECT queue FROM job WHERE state = {SCHEDULED} AND queue >= ?1 ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT queue FROM job WHERE state = {SCHEDULED} AND queue > scheduled.queue ORDER BY queue LIMIT 1)
    FROM scheduled WHERE scheduled.queue IS NOT NULL
)
SELECT queue FROM scheduled WHERE queue IS NOT NULL LIMIT ?2

-- name: line
-- Hand out the head of a queue's line to a session, in its order. Rows that a plain exchange has locked are being handed out.
WITH head AS MATERIALIZED (
    SELECT seq FROM job WHERE state = {READY} AND queue = ?5 ORDER BY priority DESC, due, seq LIMIT ?6 FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE job SET
        state = {RUNNING}, token = token + 1, session = ?1, turn = ?2, started = ?3, flags = (flags & ~{SPARE}) | ?4::integer
    FROM head WHERE job.seq = head.seq
    RETURNING
        -priority, due, job.seq, token, id, task, queue, body, options, data, attempts, crashes, max_crashes, created,
        deferred_since, flags
)
SELECT * FROM taken ORDER BY 1, 2, 3

-- name: take
-- (`line` has handed it out.)

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

-- name: damaged
-- Jobs whose rows say what cannot be: no such state, unknown flags, or flags that promise what is not there.
SELECT seq, id, state, flags, token FROM job
WHERE state NOT BETWEEN {SCHEDULED} AND {CANCELLED} OR flags & ~{KNOWN_FLAGS} != 0 OR least(token, attempts, crashes) < 0
    OR flags & {LARGE_BODY} != 0 AND NOT EXISTS (SELECT 1 FROM blob WHERE blob.job = job.seq AND kind = {BODY})
    OR flags & {LARGE_RESULT} != 0 AND NOT EXISTS (SELECT 1 FROM blob WHERE blob.job = job.seq AND kind = {RESULT})
    OR flags & {AFTER} != 0 AND NOT EXISTS (SELECT 1 FROM relation WHERE relation.job = job.seq AND parents ~ '^\[.*\]$')
    OR flags & {LANED} != 0 AND NOT EXISTS (SELECT 1 FROM laned WHERE laned.job = job.seq)
    OR flags & {RECURRING} != 0 AND NOT EXISTS (SELECT 1 FROM recurring WHERE recurring.job = job.seq)
    OR flags & {EXPIRES} != 0 AND NOT EXISTS (SELECT 1 FROM expiry WHERE expiry.job = job.seq)
LIMIT ?1

-- name: damaged_flags
-- The flags of a job, as far as other tables tell them.
SELECT
    CASE WHEN EXISTS (SELECT 1 FROM history WHERE job = ?1) THEN {HISTORY} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM unique_key WHERE job = ?1) THEN {UNIQUE} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM blob WHERE job = ?1 AND kind = {BODY}) THEN {LARGE_BODY} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM blob WHERE job = ?1 AND kind = {RESULT}) THEN {LARGE_RESULT} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM relation WHERE job = ?1) THEN {AFTER} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM edge WHERE parent = ?1) OR EXISTS (SELECT 1 FROM follower WHERE parent = ?1)
        THEN {PRECEDES} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM laned WHERE job = ?1) THEN {LANED} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM tag WHERE job = ?1) THEN {TAGGED} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM tracked WHERE job = ?1) THEN {TRACKED} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM recurring WHERE job = ?1) THEN {RECURRING} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM more WHERE job = ?1) THEN {MORE} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM expiry WHERE job = ?1) THEN {EXPIRES} ELSE 0 END

-- name: damaged_parents
-- A list of parents that cannot be read is empty.
UPDATE relation SET parents = '[]' WHERE job = ?1 AND parents !~ '^\[.*\]$'

-- name: set_aside
-- A damaged job fails; its numbers are such as jobs have, and all else is kept.
UPDATE job SET
    state = {FAILED}, flags = ?2, finished = ?3, failure = ?4, error = ?5, token = greatest(token, 0),
    attempts = greatest(attempts, 0), crashes = greatest(crashes, 0)
WHERE seq = ?1

-- name: sweep_again
-- There is more to sweep: any process may begin at once.
UPDATE upkeep SET swept = 0

-- name: place
-- By what a caller's connection is known to lead here.
SELECT place FROM meta

-- name: arrivals
-- Jobs that callers have put in transactions of theirs, and that the rules have not brought in yet.
SELECT seq, at, id, job FROM arrival ORDER BY seq LIMIT ?1 FOR UPDATE SKIP LOCKED

-- name: arrivals_delete
-- The rules have brought these in.
DELETE FROM arrival WHERE seq IN (SELECT value FROM json_each(?1))

-- name: laned_heads
-- The first jobs of lanes' own lines, so many of each, in order.
SELECT head.* FROM json_each(?1)
JOIN LATERAL (
    SELECT job, key, running_limit, rate, per, sequence, place, lane, rank, due, start_within FROM laned
    WHERE lane = value AND place = {IN_LINE}
    ORDER BY rank, due, job LIMIT ?2
) AS head ON TRUE
ORDER BY rank, due, job
