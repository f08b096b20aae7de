-- The last line of a job's history.
SELECT what FROM history WHERE job = ?1 ORDER BY seq DESC LIMIT 1
