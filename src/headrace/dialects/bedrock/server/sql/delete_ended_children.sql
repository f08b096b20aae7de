-- The parent has seen them.
DELETE FROM jobs WHERE parentJobID = ?1 AND parentJobID != 0 AND state IN ('FINISHED', 'CANCELLED')
