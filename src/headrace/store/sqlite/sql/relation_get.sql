-- What a job comes after.
SELECT parents, if_failed, delay FROM relation WHERE job = ?1
