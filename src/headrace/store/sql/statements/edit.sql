-- Changing jobs, and the settings.

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

-- name: result_forget
-- A job that was done runs again.
UPDATE job SET result = NULL WHERE seq = ?1

-- name: track
-- Track a job.
INSERT INTO tracked (job) VALUES (?1) ON CONFLICT DO NOTHING

-- name: edit
-- New options or new data for a job that waits.
UPDATE job SET options = coalesce(?2, options), data = coalesce(?3, data) WHERE seq = ?1

-- name: restore
-- What a job went through in another store, beside the columns that every rule may change.
UPDATE job SET created = ?2, progress_done = ?3, progress_total = ?4, result = ?5 WHERE seq = ?1

-- name: tagged
-- Which of these jobs have tags?
SELECT value FROM json_each(?1) WHERE EXISTS (SELECT 1 FROM tag WHERE tag.job = value)
