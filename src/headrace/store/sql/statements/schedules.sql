-- Schedules, and which jobs are theirs.

-- name: schedule_get
-- A schedule.
SELECT name, definition, version, created, paused, next, runs, last_tick, last_job, started, finished, data
FROM schedule
WHERE name = ?1

-- name: schedule_page
-- Schedules by name, from one on.
SELECT name, definition, version, created, paused, next, runs, last_tick, last_job, started, finished, data
FROM schedule
WHERE name > ?1
ORDER BY name
LIMIT ?2

-- name: schedule_due
-- Schedules whose next tick has come.
SELECT name, definition, version, created, paused, next, runs, last_tick, last_job, started, finished, data
FROM schedule
WHERE paused = 0 AND next <= ?1
ORDER BY next, name
LIMIT ?2

-- name: schedule_put
-- Store a schedule, or what has changed of it.
INSERT INTO schedule (name, definition, version, created, paused, next, runs, last_tick, last_job, started, finished, data)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (name) DO UPDATE SET
    definition = ?2, version = ?3, paused = ?5, next = ?6, runs = ?7, last_tick = ?8, last_job = ?9, started = ?10,
    finished = ?11, data = ?12

-- name: schedule_delete
-- Remove a schedule.
DELETE FROM schedule WHERE name = ?1

-- name: next_tick
-- When does the next schedule tick?
SELECT next FROM schedule WHERE paused = 0 AND next IS NOT NULL ORDER BY next LIMIT 1

-- name: recurring_put
-- Note which schedule a job belongs to, and for which of its ticks.
INSERT INTO recurring (job, schedule, tick) SELECT seq, ?2, ?3 FROM job WHERE id = ?1

-- name: recurring_of
-- The schedule of a job, and its tick.
SELECT schedule, tick FROM recurring WHERE job = ?1

-- name: recurring_end
-- What a schedule hears about a job of its own.
SELECT recurring.schedule, job.id, job.state, job.started, job.finished, job.data
FROM recurring JOIN job ON job.seq = recurring.job
WHERE recurring.job = ?1

-- name: delete_recurring
-- Remove what ties a job to its schedule.
DELETE FROM recurring WHERE job = ?1
