-- Changing jobs that wait, and the settings.

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
