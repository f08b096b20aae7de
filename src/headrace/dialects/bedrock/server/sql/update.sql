-- What UpdateJob replaces.
UPDATE jobs SET data = ?2, repeat = ?3, priority = ?4, nextRun = ?5 WHERE jobID = ?1
