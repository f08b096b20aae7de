-- Is there a session that ended before a time?
SELECT 1 FROM session WHERE closed IS NOT NULL AND closed < ?1 LIMIT 1
