-- Jobs that come after other jobs.

-- name: relation_get
-- What a job comes after.
SELECT parents, if_failed, delay FROM relation WHERE job = ?1

-- name: relation_put
-- Keep what a job comes after.
INSERT INTO relation (job, parents, if_failed, delay) VALUES (?1, ?2, ?3, ?4)

-- name: relation_set
-- It comes after others now.
INSERT INTO relation (job, parents, if_failed, delay) VALUES (?1, ?2, {FAIL}, NULL) ON CONFLICT (job) DO UPDATE SET parents = excluded.parents

-- name: relation_delay
-- How long to wait from when the last one is met.
UPDATE relation SET delay = ?2 WHERE job = ?1

-- name: relation_delete
-- The job is gone.
DELETE FROM relation WHERE job = ?1

-- name: flag_after
-- This job has a line in relation.
UPDATE job SET flags = flags | {AFTER} WHERE seq = ?1 AND flags & {AFTER} = 0

-- name: flag_resumed
-- This job has waited for children: they are in its line in relation.
UPDATE job SET flags = flags | {RESUMED} | {AFTER} WHERE seq = ?1

-- name: precede
-- Others wait for this job.
UPDATE job SET flags = flags | {PRECEDES} WHERE seq = ?1 AND flags & {PRECEDES} = 0

-- name: edge_put
-- One job waits for another.
INSERT INTO edge (parent, child, if_failed) VALUES (?1, ?2, ?3) ON CONFLICT (child, parent) DO NOTHING

-- name: edge_open
-- More parents are to be linked to a job: as long as this edge is there, it waits.
INSERT INTO edge (parent, child, if_failed) VALUES (0, ?1, {WAIT}) ON CONFLICT (child, parent) DO NOTHING

-- name: is_open
-- Are more parents to be linked to a job?
SELECT 1 FROM edge WHERE child = ?1 AND parent = 0

-- name: edge_close
-- All of them are linked.
DELETE FROM edge WHERE child = ?1 AND parent = 0

-- name: edge_delete
-- It waits no more.
DELETE FROM edge WHERE seq = ?1

-- name: edges_delete
-- A job that is gone waits for nothing.
DELETE FROM edge WHERE child = ?1

-- name: has_edges
-- Does a job wait for others?
SELECT 1 FROM edge WHERE child = ?1 LIMIT 1

-- name: edges_up
-- What a job waits for.
SELECT parent FROM edge WHERE child = ?1 LIMIT ?2

-- name: edges_down
-- Some of the jobs that wait for one that has ended.
SELECT edge.seq, child, if_failed, job.id, job.queue, job.state, job.flags, job.due
FROM edge JOIN job ON job.seq = edge.child
WHERE edge.parent = ?1 AND edge.seq > ?2 AND edge.seq <= ?3
ORDER BY edge.seq LIMIT ?4 /*lock*/

-- name: edges_named
-- What a job waits for, by name; parents that are gone are in `ended`.
SELECT
    edge.seq, coalesce(job.id, (SELECT id FROM ended WHERE ended.parent = edge.parent LIMIT 1)), job.state
FROM edge LEFT JOIN job ON job.seq = edge.parent
WHERE child = ?1 AND edge.parent > 0

-- name: edges_count
-- How many others a job waits for.
SELECT count(*) FROM edge WHERE child = ?1 AND parent > 0

-- name: waits_for
-- Some of what a job waits for.
SELECT job.id, job.state FROM edge JOIN job ON job.seq = edge.parent WHERE child = ?1 ORDER BY edge.seq LIMIT ?2

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
ORDER BY edge.seq LIMIT 1

-- name: has_culprits
-- Has a job failed because of others that were not revived?
SELECT 1 FROM culprit WHERE child = ?1 LIMIT 1

-- name: ended_note
-- A job has ended: note it if another waits for it.
INSERT INTO ended (parent, id, how, seen, upto)
SELECT ?1, ?2, ?3, 0, seq FROM edge WHERE parent = ?1 ORDER BY seq DESC LIMIT 1

-- name: ended_first
-- Whose dependents are to be looked at first?
SELECT seq, parent, id, how, seen, upto FROM ended ORDER BY seq LIMIT 1

-- name: ended_seen
-- So far they have been looked at.
UPDATE ended SET seen = ?2 WHERE seq = ?1

-- name: ended_delete
-- All of them have been looked at.
DELETE FROM ended WHERE seq = ?1

-- name: failure_of
-- Why a job has failed, and whether that was because of another one.
SELECT error, EXISTS (SELECT 1 FROM culprit WHERE child = ?1) FROM job WHERE seq = ?1 AND state = {FAILED}
