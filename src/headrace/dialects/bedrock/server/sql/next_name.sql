-- The first name at or after ?2, and before ?3, that waiting jobs of a kind have, and whether it matches a pattern.
SELECT CAST(name AS BLOB), name GLOB ?4 FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {mocked} = ?1 AND name >= ?2 AND name < ?3
ORDER BY name LIMIT 1
