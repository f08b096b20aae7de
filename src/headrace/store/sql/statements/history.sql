-- What happened to jobs that had more of a life than put, run, done.

-- name: remember
-- Write a line of a job's history.
INSERT INTO history (job, at, what, detail, worker) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: remember_start
-- Write into a job's history when its last run began.
INSERT INTO history (job, at, what, detail, worker)
SELECT job.seq, job.started, 'started', '', coalesce(session.name, '')
FROM job LEFT JOIN session ON session.seq = job.session
WHERE job.seq = ?1 AND job.started IS NOT NULL

-- name: remember_end
-- Write into a job's history how it ended, before that is overwritten.
INSERT INTO history (job, at, what, detail, worker)
SELECT job.seq, job.finished, ?2, CASE state WHEN {FAILED} THEN coalesce(job.failure, '') ELSE '' END, coalesce(session.name, '')
FROM job LEFT JOIN session ON session.seq = job.session
WHERE job.seq = ?1

-- name: remember_sudden_end
-- Write into the history of a job that has run how it ended otherwise.
INSERT INTO history (job, at, what, detail, worker)
SELECT seq, ?2, ?3, ?4, '' FROM job WHERE seq = ?1 AND started IS NOT NULL

-- name: mark_history
-- This job has lines in `history`.
UPDATE job SET flags = flags | {HISTORY} WHERE seq = ?1 AND flags & {HISTORY} = 0

-- name: history_last
-- The last line of a job's history.
SELECT what FROM history WHERE job = ?1 ORDER BY seq DESC LIMIT 1

-- name: history_of
-- What was recorded of a job's history.
SELECT at, what, detail, worker FROM history WHERE job = ?1 ORDER BY seq

-- name: trim_history
-- Only so many lines of a job's history are kept: the newest.
DELETE FROM history
WHERE job = ?1 AND seq <= (SELECT seq FROM history WHERE job = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)

-- name: delete_history
-- Remove a job's history.
DELETE FROM history WHERE job = ?1
