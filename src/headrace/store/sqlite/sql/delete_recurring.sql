-- Remove what ties a job to its schedule.
DELETE FROM recurring WHERE job = ?1
