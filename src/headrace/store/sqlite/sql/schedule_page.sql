-- Schedules by name, from one on.
SELECT name, definition, version, created, paused, next, runs, last_tick, last_job, started, finished, data
FROM schedule
WHERE name > ?1
ORDER BY name
LIMIT ?2
