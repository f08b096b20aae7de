-- The words on a job.
SELECT tag FROM tag WHERE job = ?1 ORDER BY tag
