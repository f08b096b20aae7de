-- Statements of headrace.store.sql that PostgreSQL writes in its own way.

-- name: put
-- Insert a job; one that is there already stays as it is.
INSERT INTO job (id, task, queue, state, priority, due, created, token, attempts, crashes, max_crashes, flags, body, options, unique_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (id) DO NOTHING

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

-- name: sweep_again
-- There is more to sweep: any process may begin at once.
UPDATE upkeep SET swept = 0

-- name: arrivals
-- Jobs that callers have put in transactions of theirs, and that the rules have not brought in yet.
SELECT seq, at, id, job FROM arrival ORDER BY seq LIMIT ?1 FOR UPDATE SKIP LOCKED

-- name: arrivals_delete
-- The rules have brought these in.
DELETE FROM arrival WHERE seq IN (SELECT value FROM json_each(?1))
