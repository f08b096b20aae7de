-- The parent has finished its pass: they may run.
UPDATE jobs SET state = 'QUEUED' WHERE parentJobID = ?1 AND parentJobID != 0 AND state = 'PAUSED'
