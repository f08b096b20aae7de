-- Sessions that ended long ago.
DELETE FROM session WHERE seq IN (SELECT seq FROM session WHERE closed IS NOT NULL AND closed < ?1 ORDER BY closed LIMIT 1000)
