-- The sweep: retention, sessions that ended long ago, and damaged rows.

-- name: expired_jobs
-- Ended jobs of one state that ended before a given time, oldest first, from behind a given place on, and whether each returned
-- something.
SELECT seq, flags, queue, due, started, finished, result IS NOT NULL OR flags & {LARGE_RESULT} != 0 AS returned, id, state FROM job
WHERE state = ?1 AND state >= {DONE} AND finished < ?2 AND (finished, queue, seq) > (?4, ?5, ?6)
ORDER BY finished, queue, seq LIMIT ?3

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
