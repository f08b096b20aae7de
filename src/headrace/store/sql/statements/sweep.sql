-- The sweep: retention, sessions that ended long ago, and damaged rows.

-- name: expired_jobs
-- Ended jobs of one state that ended before a given time, oldest first, from behind a given place on, and whether each returned
-- something.
SELECT seq, flags, queue, created, due, started, finished, result IS NOT NULL OR flags & {LARGE_RESULT} != 0 AS returned, id, state FROM job
WHERE state = ?1 AND state >= {DONE} AND finished < ?2 AND (finished, queue, seq) > (?4, ?5, ?6)
ORDER BY finished, queue, seq LIMIT ?3 /*skip*/

-- name: place_of_ended
-- Where an ended job is in the order that retention goes by.
SELECT finished, queue, seq FROM job WHERE seq = (SELECT value FROM progress WHERE name = ?1) AND state = ?2

-- name: done_since
-- How many jobs have ended as done after a given time, up to a limit.
SELECT count(*) FROM (SELECT 1 FROM job WHERE state = {DONE} AND state >= {DONE} AND finished > ?1 LIMIT ?2) AS found

-- name: surplus_before
-- The time before which done jobs are beyond the number to keep.
SELECT finished FROM job WHERE state = {DONE} AND state >= {DONE} ORDER BY finished DESC LIMIT 1 OFFSET ?1

-- name: results_upto
-- The end of a bounded step through done jobs, in the order in which they ended.
SELECT finished FROM job WHERE state = {DONE} AND state >= {DONE} AND finished > ?1 AND finished <= ?2 ORDER BY finished LIMIT 1 OFFSET ?3

-- name: results_precede
-- Jobs that others come after and that ended within a time, with a result.
SELECT seq FROM job
WHERE state = {DONE} AND state >= {DONE} AND finished > ?1 AND finished <= ?2 AND flags & {PRECEDES} != 0 AND (result IS NOT NULL OR flags & {LARGE_RESULT} != 0)

-- name: drop_blobs
-- Drop the large results of jobs that ended within a time, but for some.
DELETE FROM blob WHERE kind = {RESULT} AND job IN (SELECT seq FROM job WHERE state = {DONE} AND state >= {DONE} AND finished > ?1 AND finished <= ?2)
    AND job NOT IN (SELECT value FROM json_each(?3))

-- name: drop_results
-- Say in jobs that ended within a time, but for some, that their results are gone.
UPDATE job SET result = NULL, flags = (flags & ~{LARGE_RESULT}) | {DROPPED}
WHERE state = {DONE} AND state >= {DONE} AND finished > ?1 AND finished <= ?2 AND (result IS NOT NULL OR flags & {LARGE_RESULT} != 0)
    AND seq NOT IN (SELECT value FROM json_each(?3))

-- name: progress_get
-- How far upkeep of a kind has come.
SELECT value FROM progress WHERE name = ?1

-- name: progress_set
-- Remember that.
INSERT INTO progress (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: progress_unset
-- Begin anew.
DELETE FROM progress WHERE name = ?1

-- name: sessions_old
-- Is there a session that ended before a time?
SELECT 1 FROM session WHERE closed IS NOT NULL AND closed < ?1 LIMIT 1

-- name: sessions_forget
-- Sessions that ended long ago.
DELETE FROM session WHERE seq IN (SELECT seq FROM session WHERE closed IS NOT NULL AND closed < ?1 ORDER BY closed LIMIT 1000)

-- name: damaged
-- Jobs whose rows say what cannot be: no such state, unknown flags, or flags that promise what is not there.
SELECT seq, id, state, flags, token FROM job
WHERE state NOT BETWEEN {SCHEDULED} AND {CANCELLED} OR flags & ~{KNOWN_FLAGS} != 0 OR token < 0 OR attempts < 0 OR crashes < 0
    OR flags & {LARGE_BODY} != 0 AND NOT EXISTS (SELECT 1 FROM blob WHERE blob.job = job.seq AND kind = {BODY})
    OR flags & {LARGE_RESULT} != 0 AND NOT EXISTS (SELECT 1 FROM blob WHERE blob.job = job.seq AND kind = {RESULT})
    OR flags & {AFTER} != 0 AND NOT EXISTS (SELECT 1 FROM relation WHERE relation.job = job.seq AND json_valid(parents))
    OR flags & {LANED} != 0 AND NOT EXISTS (SELECT 1 FROM laned WHERE laned.job = job.seq)
    OR flags & {RECURRING} != 0 AND NOT EXISTS (SELECT 1 FROM recurring WHERE recurring.job = job.seq)
    OR flags & {EXPIRES} != 0 AND NOT EXISTS (SELECT 1 FROM expiry WHERE expiry.job = job.seq)
    OR flags & {BARRED} != 0 AND NOT EXISTS (SELECT 1 FROM barred WHERE barred.job = job.seq)
LIMIT ?1

-- name: damaged_flags
-- The flags of a job, as far as other tables tell them.
SELECT
    CASE WHEN EXISTS (SELECT 1 FROM history WHERE job = ?1) THEN {HISTORY} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM unique_key WHERE job = ?1) THEN {UNIQUE} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM blob WHERE job = ?1 AND kind = {BODY}) THEN {LARGE_BODY} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM blob WHERE job = ?1 AND kind = {RESULT}) THEN {LARGE_RESULT} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM relation WHERE job = ?1) THEN {AFTER} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM edge WHERE parent = ?1) OR EXISTS (SELECT 1 FROM follower WHERE parent = ?1)
        THEN {PRECEDES} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM laned WHERE job = ?1) THEN {LANED} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM tag WHERE job = ?1) THEN {TAGGED} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM tracked WHERE job = ?1) THEN {TRACKED} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM recurring WHERE job = ?1) THEN {RECURRING} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM more WHERE job = ?1) THEN {MORE} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM expiry WHERE job = ?1) THEN {EXPIRES} ELSE 0 END
    + CASE WHEN EXISTS (SELECT 1 FROM barred WHERE job = ?1) THEN {BARRED} ELSE 0 END

-- name: damaged_parents
-- A list of parents that cannot be read is empty.
UPDATE relation SET parents = '[]' WHERE job = ?1 AND NOT json_valid(parents)

-- name: set_aside
-- A damaged job fails; its numbers are such as jobs have, and all else is kept.
UPDATE job SET
    state = {FAILED}, flags = ?2, finished = ?3, failure = ?4, error = ?5, token = CASE WHEN token < 0 THEN 0 ELSE token END,
    attempts = CASE WHEN attempts < 0 THEN 0 ELSE attempts END, crashes = CASE WHEN crashes < 0 THEN 0 ELSE crashes END
WHERE seq = ?1
