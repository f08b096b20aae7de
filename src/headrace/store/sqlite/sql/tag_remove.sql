-- Take a word off a job.
DELETE FROM tag WHERE job = ?1 AND tag = ?2
