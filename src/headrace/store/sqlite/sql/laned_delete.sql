-- The job is gone.
DELETE FROM laned WHERE job = ?1
