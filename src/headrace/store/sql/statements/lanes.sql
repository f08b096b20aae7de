-- Lanes: which of the jobs that share a key stands in line.

-- name: lanes_idle
-- Lanes that have nothing left to remember.
SELECT seq FROM lane WHERE unfinished = 0 AND forget_at <= ?1 ORDER BY forget_at LIMIT ?2

-- name: lane_start_get
-- When a lane's start of this number was, at the latest.
SELECT at FROM lane_start WHERE lane = ?1 AND number = ?2

-- name: lane_start_put
-- Remember a start.
INSERT INTO lane_start (lane, number, at) VALUES (?1, ?2, ?3)

-- name: lane_start_drop
-- Starts up to this number need not be remembered.
DELETE FROM lane_start WHERE lane = ?1 AND number <= ?2

-- name: lane_start_find
-- Which of a lane's starts was at this time? Mostly it is one of the last.
SELECT number FROM lane_start WHERE lane = ?1 AND at = ?2 ORDER BY number DESC LIMIT 1

-- name: lane_start_take_back
-- This start of a lane did not happen.
DELETE FROM lane_start WHERE lane = ?1 AND number = ?2

-- name: lane_start_close_gap
-- Those after a start that did not happen get the numbers before theirs, negative at first, so that none is there twice.
UPDATE lane_start SET number = 1 - number WHERE lane = ?1 AND number > ?2

-- name: lane_start_closed
-- The second half of closing a gap.
UPDATE lane_start SET number = -number WHERE lane = ?1 AND number < 0

-- name: laned_due
-- Jobs of lanes that have fallen due in any queue.
SELECT job FROM laned WHERE place = {IS_SCHEDULED} AND due <= ?1 ORDER BY due, job LIMIT ?2

-- name: laned_running
-- Some of a lane's jobs that run.
SELECT job.id FROM laned JOIN job ON job.seq = laned.job WHERE lane = ?1 AND place = {RUNS} ORDER BY rank, laned.due, laned.job LIMIT ?2

-- name: laned_blocked
-- How many stand in a lane's own line.
SELECT count(*) FROM laned WHERE lane = ?1 AND place = {IN_LINE}

-- name: laned_ahead
-- How many come before a job in its lane's own line.
SELECT count(*) FROM laned WHERE lane = ?1 AND place = {IN_LINE} AND (rank, due, job) < (?2, ?3, ?4)

-- name: lanes_some
-- Lanes, by queue and key.
SELECT seq, running_limit, rate, per, sequence, unfinished, running, front, front_due, turn, starts, forget_at, weight,
    served, round_at, rule, change, queue, key
FROM lane
WHERE (queue, key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1/*pairs*/))
ORDER BY seq /*lock*/

-- name: lanes_of_jobs
-- Which lanes jobs are in, and where, with these lanes, if they are there. (Only rules change them: they need no lock. The queue is asked
-- for in this way so that a lane is looked up by queue and key; with a join PostgreSQL may look through all lanes of the queue.)
SELECT laned.job, laned.key, laned.running_limit, laned.rate, laned.per, laned.sequence, place, lane, rank, laned.due, start_within, laned.weight,
    lane.seq, lane.running_limit, lane.rate, lane.per, lane.sequence, unfinished, running, front, front_due, turn, starts, forget_at,
    lane.weight, served, round_at, rule, change, lane.queue, lane.key
FROM laned
LEFT JOIN lane ON lane.queue = (SELECT queue FROM job WHERE job.seq = laned.job) AND lane.key = laned.key
WHERE laned.job IN (SELECT value FROM json_each(?1))

-- name: laned_heads
-- The first jobs of lanes' own lines, so many of each, in order. (Only rules change them: they need no lock.)
SELECT
    laned.job, laned.key, laned.running_limit, laned.rate, laned.per, laned.sequence, laned.place, laned.lane, laned.rank,
    laned.due, laned.start_within, laned.weight, {OF_JOB}, (SELECT name FROM session WHERE session.seq = job.session)
FROM json_each(?1)
CROSS JOIN laned ON laned.job IN (
    SELECT head.job FROM laned AS head
    WHERE head.lane = value AND head.place = {IN_LINE}
    ORDER BY head.rank, head.due, head.job LIMIT ?2 /*array*/
)
CROSS JOIN job ON job.seq = laned.job
ORDER BY laned.rank, laned.due, laned.job

-- name: laned_line
-- The head of a queue's line, as `ready_line` reads it; which lanes these jobs are in, and where, with these lanes; and of each of these the
-- first of its own line. (For databases where a statement takes longer than its rows.)
SELECT {OF_JOB}, NULL,
    its.job, its.key, its.running_limit, its.rate, its.per, its.sequence, its.place, its.lane, its.rank, its.due, its.start_within, its.weight,
    lane.seq, lane.running_limit, lane.rate, lane.per, lane.sequence, unfinished, running, front, front_due, lane.turn, starts, forget_at,
    lane.weight, served, round_at, rule, change, lane.queue, lane.key,
    next.job, next.key, next.running_limit, next.rate, next.per, next.sequence, next.place, next.lane, next.rank, next.due,
    next.start_within, next.weight, {OF_FOLLOWER}, NULL
FROM (
    SELECT * FROM job WHERE state = {READY} AND queue = ?1 ORDER BY priority DESC, due, seq LIMIT ?2 /*skip*/
) AS job
LEFT JOIN laned AS its ON its.job = job.seq
LEFT JOIN lane ON lane.queue = ?1 AND lane.key = its.key
LEFT JOIN laned AS next ON next.job = (
    SELECT head.job FROM laned AS head
    WHERE head.lane = lane.seq AND head.place = {IN_LINE}
    ORDER BY head.rank, head.due, head.job LIMIT 1
)
LEFT JOIN job AS follower ON follower.seq = next.job

-- name: lane_new
-- A lane's first job has come.
INSERT INTO lane (queue, key, per, sequence, unfinished, running, starts) VALUES (?1, ?2, 1000, 0, 0, 0, 0)
ON CONFLICT (queue, key) DO NOTHING

-- name: lane_set
-- How a lane is now.
UPDATE lane SET
    running_limit = ?2, rate = ?3, per = ?4, sequence = ?5, unfinished = ?6, running = ?7, front = ?8, front_due = ?9,
    turn = ?10, starts = ?11, forget_at = ?12, weight = ?13, served = ?14, round_at = ?15, rule = ?16, change = ?17
WHERE seq = ?1

-- name: lanes_delete
-- Nothing is left to remember about lanes.
DELETE FROM lane WHERE rule IS NULL AND seq IN (SELECT value FROM json_each(?1))

-- name: lanes_faded
-- Nor about those, but for what an operator has set.
UPDATE lane SET forget_at = NULL WHERE forget_at IS NOT NULL AND seq IN (SELECT value FROM json_each(?1))

-- name: lane_starts_delete
-- Nor about their starts.
DELETE FROM lane_start WHERE lane IN (SELECT value FROM json_each(?1))

-- name: lane_starts
-- Of lanes with rates: the starts that decide about the next so many, and the last one.
SELECT lane_start.lane, lane_start.number, lane_start.at
FROM lane JOIN lane_start ON lane_start.lane = lane.seq
WHERE lane.seq IN (SELECT value FROM json_each(?1)) AND lane_start.number > lane.starts - lane.rate
    AND lane_start.number <= lane.starts - lane.rate + 1 + ?2
UNION
SELECT lane_start.lane, lane_start.number, lane_start.at
FROM lane JOIN lane_start ON lane_start.lane = lane.seq AND lane_start.number = lane.starts
WHERE lane.seq IN (SELECT value FROM json_each(?1))

-- name: laned_some
-- Which lanes jobs are in, and where.
SELECT job, key, running_limit, rate, per, sequence, place, lane, rank, due, start_within, weight
FROM laned
WHERE job IN (SELECT value FROM json_each(?1))

-- name: laned_put
-- Keep which lane a job was put into, and where it is in it.
INSERT INTO laned (job, key, running_limit, rate, per, sequence, place, lane, rank, due, start_within, weight)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)

-- name: laned_set
-- Where a job is in its lane.
UPDATE laned SET place = ?2, lane = ?3, rank = ?4, due = ?5, start_within = ?6 WHERE job = ?1

-- name: laned_delete
-- The jobs are gone.
DELETE FROM laned WHERE job IN (SELECT value FROM json_each(?1))

-- name: lane_look
-- A lane. (Most batches touch one: a list takes three times as long.)
SELECT seq, running_limit, rate, per, sequence, unfinished, running, front, front_due, turn, starts, forget_at, weight,
    served, round_at, rule, change, queue, key
FROM lane
WHERE queue = ?1 AND key = ?2 /*lock*/

-- name: lanes_page
-- Lanes of a queue, by key.
SELECT seq, running_limit, rate, per, sequence, unfinished, running, front, front_due, turn, starts, forget_at, weight,
    served, round_at, rule, change, queue, key
FROM lane
WHERE queue = ?1 AND key > ?2 ORDER BY key LIMIT ?3

-- name: lane_rules
-- What operators have set for lanes.
SELECT queue, key, rule FROM lane WHERE rule IS NOT NULL

-- name: names
-- The ids of jobs, by their rows.
SELECT seq, id FROM job WHERE seq IN (SELECT value FROM json_each(?1))
