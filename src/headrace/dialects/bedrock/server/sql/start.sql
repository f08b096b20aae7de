-- A worker has it: no time to try again, so it stays RUNNING until the worker reports.
UPDATE jobs SET state = 'RUNNING', lastRun = ?2 WHERE jobID = ?1
