-- A unique job that was there already takes over the new one's repeat and priority, and merges its data.
UPDATE jobs SET repeat = ?2, priority = ?3, data = json_patch(CASE WHEN json_valid(data) THEN data ELSE '{}' END, ?4)
WHERE jobID = ?1
