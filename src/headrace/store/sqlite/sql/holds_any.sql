-- Does a session hold anything?
SELECT 1 FROM job WHERE state = 2 AND session = ?1 LIMIT 1
