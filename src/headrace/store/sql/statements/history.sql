-- What happened to jobs that had more of a life than put, run, done.

-- name: remember
-- Write a line of a job's history.
INSERT INTO history (job, at, what, detail, worker, account) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: history_of
-- What was recorded of a job's history.
SELECT at, what, detail, worker, account FROM history WHERE job = ?1 ORDER BY seq

-- name: trim_history
-- Only so many lines of a job's history are kept: the newest.
DELETE FROM history
WHERE job = ?1 AND seq <= (SELECT seq FROM history WHERE job = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)

-- name: last_lines
-- The last lines of jobs' histories, but for lines that were added from outside while no worker had the job.
SELECT job, what FROM history
WHERE seq IN (
    SELECT (
        SELECT seq FROM history WHERE job = value AND (what <> 'log' OR worker <> '') ORDER BY seq DESC LIMIT 1
    ) FROM json_each(?1)
)

-- name: delete_history
-- Remove the histories of jobs.
DELETE FROM history WHERE job IN (SELECT value FROM json_each(?1))
