-- Insert a job; one that is there already stays as it is.
INSERT INTO job (id, task, queue, state, priority, due, created, token, attempts, crashes, max_crashes, flags, body, options, unique_key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (id) DO NOTHING
