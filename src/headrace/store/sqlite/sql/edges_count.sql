-- How many others a job waits for.
SELECT count(*) FROM edge WHERE child = ?1
