-- A new job.
INSERT INTO jobs (created, state, name, nextRun, repeat, data, priority, parentJobID, retryAfter, sequentialKey)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
