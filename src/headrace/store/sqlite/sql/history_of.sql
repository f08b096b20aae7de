-- What was recorded of a job's history.
SELECT at, what, detail, worker FROM history WHERE job = ?1 ORDER BY seq
