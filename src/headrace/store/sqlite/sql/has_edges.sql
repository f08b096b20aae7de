-- Does a job wait for others?
SELECT 1 FROM edge WHERE child = ?1 LIMIT 1
