-- Changing jobs, and the settings.

-- name: edit
-- Change a job that waits.
UPDATE job SET
    queue = coalesce(?2, queue), priority = coalesce(?3, priority), options = coalesce(?4, options), data = coalesce(?5, data)
WHERE seq = ?1

-- name: setting_get
-- What has been set under a name.
SELECT value FROM setting WHERE name = ?1

-- name: settings
-- All that has been set.
SELECT name, value FROM setting ORDER BY name

-- name: setting_set
-- Set something.
INSERT INTO setting (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: setting_unset
-- Go back to the default.
DELETE FROM setting WHERE name = ?1

-- name: tag_remove
-- Remove a tag from a job.
DELETE FROM tag WHERE job = ?1 AND tag = ?2

-- name: tag_mark
-- Say in a job's row whether it has tags.
UPDATE job SET flags = (flags & ~{TAGGED}) | CASE WHEN EXISTS (SELECT 1 FROM tag WHERE job = ?1) THEN {TAGGED} ELSE 0 END WHERE seq = ?1

-- name: track
-- Track a job.
INSERT INTO tracked (job) VALUES (?1) ON CONFLICT DO NOTHING

-- name: track_mark
-- Say in a job's row whether it is tracked.
UPDATE job SET flags = (flags & ~{TRACKED}) | ?2 WHERE seq = ?1
