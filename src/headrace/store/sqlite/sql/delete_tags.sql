-- Take all words off a job.
DELETE FROM tag WHERE job = ?1
