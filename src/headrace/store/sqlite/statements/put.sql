-- Putting, where that is SQLite's own way.

-- name: put
-- Insert a job; one that is there already stays as it is. No seq given: one above the newest.
INSERT INTO job (seq, id, task, queue, state, priority, due, created, token, attempts, crashes, max_crashes, flags, body, options, unique_key)
VALUES (
    (SELECT seq FROM seq_floor WHERE one = 1 AND seq > coalesce((SELECT max(seq) FROM job), 0)),
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, ?8, ?9, ?10, ?11, ?12
)
ON CONFLICT (id) DO NOTHING
