-- A worker has it until its retryAfter has passed; then it is in line again.
UPDATE jobs SET state = 'RUNQUEUED', lastRun = ?2, nextRun = ?3 WHERE jobID = ?1
