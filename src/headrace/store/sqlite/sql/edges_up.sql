-- What a job waits for.
SELECT parent FROM edge WHERE child = ?1 LIMIT ?2
