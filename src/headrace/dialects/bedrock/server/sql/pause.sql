-- A parent waits for its children; due at once when they are done.
UPDATE jobs SET state = 'PAUSED', nextRun = lastRun, data = ?2 WHERE jobID = ?1
