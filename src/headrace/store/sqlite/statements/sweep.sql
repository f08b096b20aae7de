-- Damaged rows.

-- name: damaged
-- Jobs whose rows say what cannot be: no such state, unknown flags, or flags that promise what is not there.
SELECT seq, id, state, flags, token FROM job
WHERE state NOT BETWEEN {SCHEDULED} AND {CANCELLED} OR flags & ~{KNOWN_FLAGS} OR min(token, attempts, crashes) < 0
    OR flags & {LARGE_BODY} AND NOT EXISTS (SELECT 1 FROM blob WHERE blob.job = job.seq AND kind = {BODY})
    OR flags & {LARGE_RESULT} AND NOT EXISTS (SELECT 1 FROM blob WHERE blob.job = job.seq AND kind = {RESULT})
    OR flags & {AFTER} AND NOT coalesce((SELECT json_valid(parents) FROM relation WHERE relation.job = job.seq), 0)
    OR flags & {LANED} AND NOT EXISTS (SELECT 1 FROM laned WHERE laned.job = job.seq)
    OR flags & {RECURRING} AND NOT EXISTS (SELECT 1 FROM recurring WHERE recurring.job = job.seq)
    OR flags & {EXPIRES} AND NOT EXISTS (SELECT 1 FROM expiry WHERE expiry.job = job.seq)
LIMIT ?1

-- name: damaged_flags
-- The flags of a job, as far as other tables tell them.
SELECT
    {HISTORY} * EXISTS (SELECT 1 FROM history WHERE job = ?1)
    + {UNIQUE} * EXISTS (SELECT 1 FROM unique_key WHERE job = ?1)
    + {LARGE_BODY} * EXISTS (SELECT 1 FROM blob WHERE job = ?1 AND kind = {BODY})
    + {LARGE_RESULT} * EXISTS (SELECT 1 FROM blob WHERE job = ?1 AND kind = {RESULT})
    + {AFTER} * EXISTS (SELECT 1 FROM relation WHERE job = ?1)
    + {PRECEDES} * (EXISTS (SELECT 1 FROM edge WHERE parent = ?1) OR EXISTS (SELECT 1 FROM follower WHERE parent = ?1))
    + {LANED} * EXISTS (SELECT 1 FROM laned WHERE job = ?1)
    + {TAGGED} * EXISTS (SELECT 1 FROM tag WHERE job = ?1)
    + {TRACKED} * EXISTS (SELECT 1 FROM tracked WHERE job = ?1)
    + {RECURRING} * EXISTS (SELECT 1 FROM recurring WHERE job = ?1)
    + {MORE} * EXISTS (SELECT 1 FROM more WHERE job = ?1)
    + {EXPIRES} * EXISTS (SELECT 1 FROM expiry WHERE job = ?1)

-- name: damaged_parents
-- A list of parents that cannot be read is empty.
UPDATE relation SET parents = '[]' WHERE job = ?1 AND NOT json_valid(parents)

-- name: set_aside
-- A damaged job fails; its numbers are such as jobs have, and all else is kept.
UPDATE job SET
    state = {FAILED}, flags = ?2, finished = ?3, failure = ?4, error = ?5, token = max(token, 0), attempts = max(attempts, 0),
    crashes = max(crashes, 0)
WHERE seq = ?1
