-- Handing out the heads of lines.

-- name: special
-- Is there anything beyond plain jobs that an exchange has to look at? When is the first waiting job to have started, when does the
-- next schedule tick, and when does the next scheduled job fall due?
SELECT
    EXISTS (SELECT 1 FROM ended), EXISTS (SELECT 1 FROM lane), EXISTS (SELECT 1 FROM control), EXISTS (SELECT 1 FROM block_list),
    (SELECT at FROM expiry WHERE at IS NOT NULL ORDER BY at LIMIT 1),
    (SELECT next FROM schedule WHERE paused = 0 AND next IS NOT NULL ORDER BY next LIMIT 1),
    (SELECT due FROM job WHERE state = {SCHEDULED} ORDER BY due LIMIT 1)

-- name: line
-- The head of a queue's line, as it will be once `take` has handed it out.
SELECT
    -priority, due, seq, token + 1, id, task, queue, body, options, data, attempts, crashes, max_crashes, created,
    deferred_since, (flags & ~{SPARE}) | ?4
FROM job
WHERE state = {READY} AND queue = ?5
ORDER BY priority DESC, due, seq
LIMIT ?6 /*skip*/

-- name: take
-- Hand out jobs to a session. (OR FAIL: without it SQLite would keep a copy of each page it changes, in case that the
-- statement fails half-way; here the whole transaction is taken back then.)
UPDATE OR FAIL job SET
    state = {RUNNING}, token = token + 1, session = ?1, turn = ?2, started = ?3, flags = (flags & ~{SPARE}) | ?4
WHERE seq IN (SELECT value FROM json_each(?5))

-- name: retake
-- The leases that one exchange handed out and that are still held: the answer to a repeated request.
SELECT
    -priority, due, seq, token, id, task, queue, body, options, data, attempts, crashes, max_crashes, created,
    deferred_since, flags
FROM job
WHERE state = {RUNNING} AND session = ?1 AND turn = ?2

-- name: queues_with_lanes
-- Which of these queues have lanes?
SELECT value FROM json_each(?1/*text*/) WHERE EXISTS (SELECT 1 FROM lane WHERE lane.queue = value)

-- name: ready_count
-- How many jobs a queue has ready, up to a limit.
SELECT count(*) FROM (SELECT 1 FROM job WHERE state = {READY} AND queue = ?1 LIMIT ?2) AS found

-- name: next_due
-- When does the next scheduled job fall due?
SELECT due FROM job WHERE state = {SCHEDULED} ORDER BY due LIMIT 1

-- name: holds_any
-- Does a session hold anything?
SELECT 1 FROM job WHERE state = {RUNNING} AND session = ?1 LIMIT 1

-- name: stopping
-- The jobs of a session that are to stop.
SELECT seq FROM job
WHERE state = {RUNNING} AND session = (SELECT seq FROM session WHERE id = ?1) AND flags & {CANCELLING} != 0

-- name: ready_line
-- The head of a queue's line, as far as rules decide about its jobs.
SELECT {OF_JOB}, NULL
FROM job
WHERE state = {READY} AND queue = ?1
ORDER BY priority DESC, due, seq LIMIT ?2 /*skip*/

-- name: take_one
-- Hand out a job to a session.
UPDATE job SET state = {RUNNING}, token = token + 1, session = ?2, turn = ?3, started = ?4, flags = ?5, due = ?6 WHERE seq = ?1
