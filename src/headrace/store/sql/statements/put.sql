-- Putting, cancelling and deleting jobs, and what is written beside their rows.

-- name: set_data
-- Data that a job begins with.
UPDATE job SET data = ?2 WHERE id = ?1

-- name: blob_put
-- Store a value too large to be carried along in `job`.
INSERT INTO blob (job, kind, bytes) SELECT seq, ?2, ?3 FROM job WHERE id = ?1
ON CONFLICT (job, kind) DO UPDATE SET bytes = excluded.bytes

-- name: blob_get
-- Fetch such a value.
SELECT bytes FROM blob WHERE job = ?1 AND kind = ?2

-- name: blob_delete
-- Remove such a value.
DELETE FROM blob WHERE job = ?1 AND kind = ?2

-- name: delete_blobs
-- Remove a job's large values.
DELETE FROM blob WHERE job = ?1

-- name: unique_holder
-- The job that has a unique key.
SELECT job.seq, job.id, job.state, unique_key.until, job.flags
FROM unique_key JOIN job ON job.seq = unique_key.job
WHERE unique_key.key = ?1 /*lock*/

-- name: unique_take
-- Give a unique key to the job with this id.
INSERT INTO unique_key (key, job, until) SELECT ?1, seq, ?2 FROM job WHERE id = ?3
ON CONFLICT (key) DO UPDATE SET job = excluded.job, until = excluded.until

-- name: unique_of
-- The unique key of a job.
SELECT key FROM unique_key WHERE job = ?1

-- name: unique_key_of
-- The unique key that a job was put with, whether it still has it or not.
SELECT unique_key FROM job WHERE seq = ?1

-- name: delete_unique
-- Remove a job's claim on its unique key.
DELETE FROM unique_key WHERE job = ?1

-- name: cancel_running
-- Ask a running job to stop.
UPDATE job SET flags = flags | {CANCELLING} WHERE seq = ?1

-- name: cancel_waiting
-- Cancel a job that waits, or that has failed.
UPDATE job SET state = {CANCELLED}, finished = ?2 WHERE seq = ?1

-- name: delete_job
-- Remove a job's row.
DELETE FROM job WHERE seq = ?1

-- name: times_of
-- The times of a job that is done.
SELECT queue, due, started, finished FROM job WHERE seq = ?1 AND state = {DONE}

-- name: tag_add
-- Add a tag to a job, once.
INSERT INTO tag (job, tag) SELECT seq, ?2 FROM job WHERE id = ?1 ON CONFLICT DO NOTHING

-- name: tags_of
-- The tags of a job.
SELECT tag FROM tag WHERE job = ?1 ORDER BY tag

-- name: delete_tags
-- Remove all tags of a job.
DELETE FROM tag WHERE job = ?1

-- name: delete_more
-- Remove what a later version keeps about a job.
DELETE FROM more WHERE job = ?1

-- name: untrack
-- Stop tracking it.
DELETE FROM tracked WHERE job = ?1
