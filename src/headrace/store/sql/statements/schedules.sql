-- Schedules, and which jobs are theirs.

-- name: schedules_some
-- Schedules, by their names. What is long of them is not among it.
SELECT
    name, CASE WHEN length(definition) <= {INLINE} THEN definition END, version, created, paused, paused_at, paused_by, next, runs,
    last_tick, last_job, started, finished, CASE WHEN length(data) <= {INLINE} THEN data END, length(data) > {INLINE}
FROM schedule
WHERE name IN (SELECT value FROM json_each(?1/*text*/))

-- name: schedule_definition
-- The definition of a schedule in a version of it.
SELECT definition FROM schedule WHERE name = ?1 AND version = ?2

-- name: schedule_data
-- The data that a schedule carries on in a version of it.
SELECT data FROM schedule WHERE name = ?1 AND version = ?2

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

-- name: schedule_carry
-- A schedule carries on the data of a job.
UPDATE schedule SET data = (SELECT data FROM job WHERE seq = ?2) WHERE name = ?1

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
-- The schedules of jobs, their ticks, and whether the jobs have data.
SELECT recurring.job, recurring.schedule, recurring.tick, job.data IS NOT NULL
FROM recurring JOIN job ON job.seq = recurring.job
WHERE recurring.job IN (SELECT value FROM json_each(?1))

-- name: delete_recurring
-- Remove what ties jobs to their schedules.
DELETE FROM recurring WHERE job IN (SELECT value FROM json_each(?1))
