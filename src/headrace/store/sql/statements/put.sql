-- Putting, cancelling and deleting jobs, and what is written beside their rows.

-- name: blob_delete
-- Remove such a value.
DELETE FROM blob WHERE job = ?1 AND kind = ?2

-- name: unique_of
-- The unique keys of jobs.
SELECT job, key FROM unique_key WHERE job IN (SELECT value FROM json_each(?1))

-- name: tags_of
-- The tags of jobs.
SELECT job, tag FROM tag WHERE job IN (SELECT value FROM json_each(?1)) ORDER BY job, tag

-- name: data_set
-- Data that a job begins with, or gets from outside.
UPDATE job SET data = ?2 WHERE seq = ?1

-- name: more_put
-- What only some jobs have and no statement looks for.
INSERT INTO more (job, map) VALUES (?1, ?2)

-- name: mores
-- The same of jobs with these ids.
SELECT job.id, more.map FROM job JOIN more ON more.job = job.seq WHERE job.id IN (SELECT value FROM json_each(?1/*text*/))

-- name: blob_put
-- Store a value too large to be carried along in `job`.
INSERT INTO blob (job, kind, bytes) VALUES (?1, ?2, ?3) ON CONFLICT (job, kind) DO UPDATE SET bytes = excluded.bytes

-- name: blobs
-- Fetch such values.
SELECT job, bytes FROM blob WHERE job IN (SELECT value FROM json_each(?1)) AND kind = ?2

-- name: unique_holders
-- The jobs that have unique keys.
SELECT key, job, until FROM unique_key WHERE key IN (SELECT value FROM json_each(?1/*text*/))

-- name: unique_take
-- Give a unique key to a job, from the one that has it, if one does.
INSERT INTO unique_key (key, job, until) VALUES (?1, ?2, ?3)
ON CONFLICT (key) DO UPDATE SET job = excluded.job, until = excluded.until WHERE unique_key.job = ?4

-- name: tag_add
-- Add a tag to a job, once.
INSERT INTO tag (job, tag) VALUES (?1, ?2) ON CONFLICT DO NOTHING

-- name: delete_jobs
-- Remove the rows of jobs.
DELETE FROM job WHERE seq IN (SELECT value FROM json_each(?1))

-- name: delete_blobs
-- Remove their large values,
DELETE FROM blob WHERE job IN (SELECT value FROM json_each(?1))

-- name: delete_unique
-- their claims on unique keys,
DELETE FROM unique_key WHERE job IN (SELECT value FROM json_each(?1))

-- name: delete_tags
-- their tags,
DELETE FROM tag WHERE job IN (SELECT value FROM json_each(?1))

-- name: delete_more
-- what a later version keeps about them,
DELETE FROM more WHERE job IN (SELECT value FROM json_each(?1))

-- name: untrack
-- and stop tracking them.
DELETE FROM tracked WHERE job IN (SELECT value FROM json_each(?1))
