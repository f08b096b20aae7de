-- Jobs that come after other jobs.

-- name: edge_put
-- One job waits for another.
INSERT INTO edge (parent, child, if_failed) VALUES (?1, ?2, ?3) ON CONFLICT (child, parent) DO NOTHING

-- name: is_open
-- Are more parents to be linked to the job with this id?
SELECT 1 FROM job JOIN edge ON edge.child = job.seq AND edge.parent = 0 WHERE job.id = ?1

-- name: edge_close
-- All of them are linked.
DELETE FROM edge WHERE child = ?1 AND parent = 0

-- name: edge_delete
-- It waits no more.
DELETE FROM edge WHERE seq = ?1

-- name: edges_count
-- How many others a job waits for.
SELECT count(*) FROM edge WHERE child = ?1 AND parent > 0

-- name: waits_for
-- Some of what a job waits for.
SELECT job.id, job.state FROM edge JOIN job ON job.seq = edge.parent WHERE child = ?1 ORDER BY +edge.seq LIMIT ?2

-- name: follower_put
-- One job names another among those it comes after.
INSERT INTO follower (parent, child) VALUES (?1, ?2) ON CONFLICT DO NOTHING

-- name: follower_delete
-- It names it no more.
DELETE FROM follower WHERE parent = (SELECT seq FROM job WHERE id = ?1) AND child = ?2

-- name: followers_delete
-- A job names no others any more.
DELETE FROM follower WHERE child = ?1

-- name: followers_of
-- Some of the jobs that name an ended one, and whether each needs it: it is unfinished, and that one is done, or it waits for nothing any
-- more. (One that does may wait for the very end of a failed one.)
SELECT
    child,
    coalesce(job.state < {DONE}, FALSE)
    AND (?2 = {DONE} OR NOT EXISTS (SELECT 1 FROM edge WHERE edge.child = follower.child))
FROM follower LEFT JOIN job ON job.seq = follower.child
WHERE follower.parent = ?1
ORDER BY follower.child LIMIT ?3

-- name: dependants
-- The first jobs that name one, some of which may have ended.
SELECT job.id, job.state
FROM follower JOIN job ON job.seq = follower.child
WHERE follower.parent = (SELECT seq FROM job WHERE id = ?1)
ORDER BY follower.child LIMIT ?2

-- name: followers_forget
-- Of the jobs that name an ended one, forget the first, as far as they have ended.
DELETE FROM follower
WHERE parent = ?1 AND child < ?2 AND NOT EXISTS (SELECT 1 FROM job WHERE job.seq = follower.child AND job.state < {DONE})

-- name: followers_drop
-- Forget the first of the jobs that name another.
DELETE FROM follower WHERE parent = ?1 AND child <= ?2

-- name: culprit_put
-- One job has failed because of another.
INSERT INTO culprit (child, parent) VALUES (?1, ?2) ON CONFLICT DO NOTHING

-- name: culprit_delete
-- That one was revived.
DELETE FROM culprit WHERE child = ?1 AND parent = ?2

-- name: culprits_delete
-- A job is gone, or was revived by hand: nothing is held against those that it comes after.
DELETE FROM culprit WHERE child = ?1

-- name: culprit_first
-- The first of those because of which a job fails, in the order in which it names them, and how that one ended.
SELECT job.seq, job.id, job.state
FROM edge
JOIN culprit ON culprit.child = edge.child AND culprit.parent = edge.parent
JOIN job ON job.seq = edge.parent
WHERE edge.child = ?1
ORDER BY +edge.seq LIMIT 1

-- name: ended_note
-- A job has ended: note it if another waits for it.
INSERT INTO ended (parent, id, how, seen, upto)
SELECT ?1, ?2, ?3, 0, seq FROM edge WHERE parent = ?1 ORDER BY seq DESC LIMIT 1

-- name: ended_seen
-- So far they have been looked at.
UPDATE ended SET seen = ?2 WHERE seq = ?1

-- name: relations_some
-- How jobs come after others.
SELECT job, if_failed, delay FROM relation WHERE job IN (SELECT value FROM json_each(?1))

-- name: parents_some
-- What jobs come after.
SELECT job, parents FROM relation WHERE job IN (SELECT value FROM json_each(?1))

-- name: relation_put
-- Keep what a job comes after.
INSERT INTO relation (job, if_failed, delay, parents) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (job) DO UPDATE SET parents = excluded.parents, delay = excluded.delay

-- name: relation_delay
-- How long a job waits from when the last one is met.
UPDATE relation SET delay = ?2 WHERE job = ?1

-- name: relation_delete
-- The jobs are gone.
DELETE FROM relation WHERE job IN (SELECT value FROM json_each(?1))

-- name: edges_delete
-- Jobs that are gone wait for nothing.
DELETE FROM edge WHERE child IN (SELECT value FROM json_each(?1))

-- name: culprits_of_delete
-- Nothing is held against those that they came after,
DELETE FROM culprit WHERE child IN (SELECT value FROM json_each(?1))

-- name: followers_of_delete
-- nor do they name these.
DELETE FROM follower WHERE child IN (SELECT value FROM json_each(?1))

-- name: waiting
-- Which of these jobs wait for others?
SELECT value FROM json_each(?1) WHERE EXISTS (SELECT 1 FROM edge WHERE edge.child = value)

-- name: waiting_besides
-- Which of these jobs wait for others by other edges than these?
SELECT value FROM json_each(?1)
WHERE EXISTS (SELECT 1 FROM edge WHERE edge.child = value AND edge.seq NOT IN (SELECT value FROM json_each(?2)))

-- name: above
-- What jobs wait for, directly or not, themselves included; so many at most.
WITH RECURSIVE above (job) AS (
    SELECT value FROM json_each(?1)
    UNION
    SELECT edge.parent FROM above JOIN edge ON edge.child = above.job
)
SELECT job FROM above LIMIT ?2

-- name: edges_above
-- For how many others do these jobs wait, up to a number?
SELECT count(*) FROM (SELECT 1 FROM edge WHERE child IN (SELECT value FROM json_each(?1)) LIMIT ?2) AS found

-- name: edges_down
-- Some of the edges of jobs that have ended, in the order of their ends.
SELECT ended.seq, edge.seq, edge.child, edge.if_failed
FROM ended JOIN edge ON edge.parent = ended.parent AND edge.seq > ended.seen AND edge.seq <= ended.upto
WHERE ended.seq <= ?1
ORDER BY ended.seq, edge.seq LIMIT ?2

-- name: edges_named
-- What jobs wait for, by name; parents that are gone are in `ended`. (Parent 0: more are to be linked.)
SELECT
    edge.child, edge.seq, edge.parent, coalesce(job.id, (SELECT id FROM ended WHERE ended.parent = edge.parent LIMIT 1)), job.state
FROM edge LEFT JOIN job ON job.seq = edge.parent
WHERE edge.child IN (SELECT value FROM json_each(?1))

-- name: culprits
-- Because of which others have jobs failed?
SELECT child, parent FROM culprit WHERE child IN (SELECT value FROM json_each(?1))

-- name: failures_of
-- Why jobs have failed, and whether that was because of others. What is long is not among it: it has a token.
SELECT
    seq, CASE WHEN length(error) <= {INLINE} THEN error END,
    EXISTS (SELECT 1 FROM culprit WHERE culprit.child = job.seq), CASE WHEN length(error) > {INLINE} THEN token END
FROM job
WHERE seq IN (SELECT value FROM json_each(?1)) AND +state = {FAILED}

-- name: long_error
-- Why a job has failed in the run with this token.
SELECT error FROM job WHERE seq = ?1 AND token = ?2 AND +state = {FAILED}

-- name: ended_some
-- Whose dependents are to be looked at first?
SELECT seq, parent, id, how FROM ended ORDER BY seq LIMIT ?1

-- name: ended_delete
-- All of them have been looked at.
DELETE FROM ended WHERE seq IN (SELECT value FROM json_each(?1))
