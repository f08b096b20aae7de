-- Statistics by day.

-- name: stat_add
-- Add to the statistics of a day.
INSERT INTO stat (day, queue, kind, bucket, count, total, squares) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (day, queue, kind, bucket) DO UPDATE SET
    count = stat.count + excluded.count, total = stat.total + excluded.total, squares = stat.squares + excluded.squares

-- name: stat_kept
-- The statistics of a day, as far as they were summed up.
SELECT kind, bucket, count, total, squares FROM stat WHERE queue = ?1 AND day = ?2

-- name: stat_derived
-- The times of jobs of a queue that were taken or done within a time and are still kept. (No index on `started`: every job
-- would pay for it, and this reads at most the done jobs that are kept.)
SELECT queue, due, started, finished FROM job
WHERE state = {DONE} AND state >= {DONE} AND finished >= ?2 AND queue = ?1 AND (finished < ?3 OR started < ?3)

-- name: stat_failed
-- How many jobs that failed within a time are failed still.
SELECT count(*) FROM job WHERE state = {FAILED} AND state >= {DONE} AND finished >= ?2 AND finished < ?3 AND queue = ?1

-- name: came_lately
-- Of the newest jobs those that came since a moment: how many, by queue and slot of time.
SELECT queue, created / ?1, count(*)
FROM (SELECT queue, created FROM job ORDER BY seq DESC LIMIT ?2) AS newest
WHERE created >= ?3
GROUP BY 1, 2

-- name: ended_lately
-- The same of the jobs that came to an end last.
SELECT queue, finished / ?1, count(*)
FROM (
    SELECT queue, finished FROM job
    WHERE state = ?4 AND state >= {DONE} AND finished >= ?3
    ORDER BY finished DESC LIMIT ?2
) AS latest
GROUP BY 1, 2

-- name: gone_lately
-- How many jobs that came, and that ended, since a slot of time are gone.
SELECT queue, slot, came, ended FROM gone WHERE slot >= ?1

-- name: gone_add
-- Jobs are about to go: count those that came, and those that ended, since a moment.
INSERT INTO gone (slot, queue, came, ended)
SELECT slot, queue, sum(came), sum(ended)
FROM (
    SELECT created / ?2 AS slot, queue, 1 AS came, 0 AS ended FROM job
    WHERE seq IN (SELECT value FROM json_each(?1)) AND created >= ?3
    UNION ALL
    SELECT finished / ?2, queue, 0, 1 FROM job
    WHERE seq IN (SELECT value FROM json_each(?1)) AND +state >= {DONE} AND finished >= ?3
) AS going
GROUP BY slot, queue
ON CONFLICT (slot, queue) DO UPDATE SET came = gone.came + excluded.came, ended = gone.ended + excluded.ended

-- name: gone_count
-- So many jobs that came, and that ended, in a slot of time are about to go.
INSERT INTO gone (slot, queue, came, ended) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (slot, queue) DO UPDATE SET came = gone.came + excluded.came, ended = gone.ended + excluded.ended

-- name: gone_forget
-- Forget some of what was counted before a slot of time.
DELETE FROM gone WHERE (slot, queue) IN (SELECT slot, queue FROM gone WHERE slot < ?1 LIMIT 1000)

-- name: stat_flatten
-- The histograms of a day are given up: what they counted remains in one sum.
INSERT INTO stat (queue, day, kind, bucket, count, total, squares)
SELECT queue, day, kind, -1, sum(count), sum(total), sum(squares)
FROM stat
WHERE day = ?1 AND bucket >= 0
GROUP BY queue, day, kind
ON CONFLICT (day, queue, kind, bucket) DO UPDATE SET
    count = stat.count + excluded.count, total = stat.total + excluded.total, squares = stat.squares + excluded.squares

-- name: stat_no_buckets
-- And they go.
DELETE FROM stat WHERE day = ?1 AND bucket >= 0

-- name: stat_with_buckets
-- The oldest day before a given one that has histograms.
SELECT day FROM stat WHERE bucket >= 0 AND day < ?1 ORDER BY day LIMIT 1

-- name: stat_old
-- The oldest day before a given one that has statistics.
SELECT day FROM stat WHERE day < ?1 ORDER BY day LIMIT 1

-- name: stat_forget
-- Give up the statistics of a day.
DELETE FROM stat WHERE day = ?1
