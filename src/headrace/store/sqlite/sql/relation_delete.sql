-- The job is gone.
DELETE FROM relation WHERE job = ?1
