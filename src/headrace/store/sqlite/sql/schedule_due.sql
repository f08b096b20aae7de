-- Schedules whose next tick has come.
SELECT name, definition, version, created, paused, next, runs, last_tick, last_job, started, finished, data
FROM schedule
WHERE paused = 0 AND next <= ?1
ORDER BY next, name
LIMIT ?2
