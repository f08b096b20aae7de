-- The first name after ?2, and before ?3, that waiting jobs of a kind have, and whether it matches a pattern.
SELECT CAST(name AS BLOB), name GLOB ?4 FROM jobs
WHERE state IN ('QUEUED', 'RUNQUEUED') AND {mocked} = ?1 AND name > CAST(?2 AS TEXT) AND name < ?3
ORDER BY name LIMIT 1
