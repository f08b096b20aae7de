-- When jobs failed, by group.

-- name: groups_failing
-- What is known of some groups.
SELECT name, first_seen, last_seen, hours FROM failing WHERE name IN (SELECT value FROM json_each(?1/*text*/))

-- name: group_failing
-- Jobs have failed in a group.
INSERT INTO failing (name, first_seen, last_seen, hours) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (name) DO UPDATE SET first_seen = excluded.first_seen, last_seen = excluded.last_seen, hours = excluded.hours

-- name: group_forgotten
-- Is there a group whose last failure was before a time?
SELECT 1 FROM failing WHERE last_seen < ?1 LIMIT 1

-- name: groups_forget
-- Forget some of these.
DELETE FROM failing WHERE name IN (SELECT name FROM failing WHERE last_seen < ?1 ORDER BY last_seen LIMIT 1000)
