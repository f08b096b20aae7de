-- Schedules, and which jobs are theirs.

-- name: schedules_some
-- Schedules, by their names.
SELECT
    name, definition, version, created, paused, paused_at, paused_by, next, runs, last_tick, last_job, started, finished,
    data
FROM schedule
WHERE name IN (SELECT value FROM json_each(?1/*text*/))

-- name: schedule_page
-- Schedules by name, from one on.
SELECT
    name, definition, version, created, paused, paused_at, paused_by, next, runs, last_tick, last_job, started, finished,
    data
FROM schedule
WHERE name > ?1
ORDER BY name
LIMIT ?2

-- name: schedule_due
-- Schedules whose next tick has come.
SELECT
    name, definition, version, created, paused, paused_at, paused_by, next, runs, last_tick, last_job, started, finished,
    data
FROM schedule
WHERE paused = 0 AND next <= ?1
ORDER BY next, name
LIMIT ?2

-- name: schedule_put
-- Store a schedule, or what has changed of it.
INSERT INTO schedule (
    name, definition, version, created, paused, paused_at, paused_by, next, runs, last_tick, last_job, started, finished,
    data
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT (name) DO UPDATE SET
    definition = ?2, version = ?3, paused = ?5, paused_at = ?6, paused_by = ?7, next = ?8, runs = ?9, last_tick = ?10,
    last_job = ?11, started = ?12, finished = ?13, data = ?14

-- name: schedule_delete
-- Remove a schedule.
DELETE FROM schedule WHERE name = ?1

-- name: next_tick
-- When does the next schedule tick?
SELECT next FROM schedule WHERE paused = 0 AND next IS NOT NULL ORDER BY next LIMIT 1

-- name: recurring_put
-- Note which schedule a job belongs to, and for which of its ticks.
INSERT INTO recurring (job, schedule, tick) VALUES (?1, ?2, ?3)

-- name: recurrences
-- The schedules of jobs, their ticks, and the jobs' data.
SELECT recurring.job, recurring.schedule, recurring.tick, job.data
FROM recurring JOIN job ON job.seq = recurring.job
WHERE recurring.job IN (SELECT value FROM json_each(?1))

-- name: delete_recurring
-- Remove what ties jobs to their schedules.
DELETE FROM recurring WHERE job IN (SELECT value FROM json_each(?1))
