-- The next queue, by name, that has ready jobs.
SELECT queue FROM job WHERE state = 1 AND queue >= ?1 ORDER BY queue LIMIT 1
