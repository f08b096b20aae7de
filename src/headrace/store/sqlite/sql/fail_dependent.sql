-- A job fails because of one that it comes after.
UPDATE job SET state = 5, finished = ?2, error = ?3, failure = 'dependency' WHERE seq = ?1
