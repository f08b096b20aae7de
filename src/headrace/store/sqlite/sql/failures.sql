-- How many jobs have failed of what, most first.
SELECT coalesce(failure, ''), count(*) FROM job WHERE state = 5 GROUP BY failure ORDER BY 2 DESC, 1 LIMIT ?1
