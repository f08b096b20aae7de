-- A job is gone.
DELETE FROM jobs WHERE jobID = ?1
