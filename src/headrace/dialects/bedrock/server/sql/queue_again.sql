-- Back in line after a run.
UPDATE jobs SET state = 'QUEUED', nextRun = ?2, name = ?3, priority = ?4, data = ?5 WHERE jobID = ?1
