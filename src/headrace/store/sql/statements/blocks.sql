-- The block list, and the jobs that wait because of it.

-- name: blocks
-- The tasks that are blocked, and how many jobs wait because of each.
SELECT task, reason, blocked_by, at, (SELECT count(*) FROM barred WHERE barred.task = block_list.task) FROM block_list ORDER BY task

-- name: block_get
-- The same of one task.
SELECT task, reason, blocked_by, at, (SELECT count(*) FROM barred WHERE barred.task = block_list.task) FROM block_list WHERE task = ?1

-- name: blocked_tasks
-- Their names alone.
SELECT task FROM block_list

-- name: block_put
-- Block a task. One that is blocked stays so since when it is.
INSERT INTO block_list (task, reason, blocked_by, at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (task) DO UPDATE SET reason = excluded.reason, blocked_by = excluded.blocked_by

-- name: block_delete
-- A task is no longer blocked.
DELETE FROM block_list WHERE task = ?1

-- name: bar
-- A job waits because its task is blocked.
INSERT INTO barred (job, task) VALUES (?1, ?2)

-- name: unbar
-- It no longer does.
DELETE FROM barred WHERE job = ?1

-- name: barred_delete
-- The same of several jobs.
DELETE FROM barred WHERE job IN (SELECT value FROM json_each(?1))

-- name: barred_task
-- A task that is not blocked and has jobs that wait all the same: from index entry to index entry, one for each task.
WITH RECURSIVE waiting (task) AS (
    SELECT min(task) FROM barred
    UNION ALL
    SELECT (SELECT min(barred.task) FROM barred WHERE barred.task > waiting.task) FROM waiting WHERE waiting.task IS NOT NULL
)
SELECT task FROM waiting
WHERE task IS NOT NULL AND NOT EXISTS (SELECT 1 FROM block_list WHERE block_list.task = waiting.task) LIMIT 1

-- name: barred_some
-- The first jobs of a task that wait because it is, or was, blocked.
SELECT job FROM barred WHERE task = ?1 ORDER BY job LIMIT ?2
