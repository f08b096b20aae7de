-- Looking at jobs.

-- name: by_id
-- One job.
SELECT {ROW} FROM jobs WHERE jobID = ?1
