-- Lanes, where that is SQLite's own way.

-- name: laned_heads
-- The first jobs of lanes' own lines, so many of each, in order.
SELECT
    laned.job, laned.key, laned.running_limit, laned.rate, laned.per, laned.sequence, laned.place, laned.lane, laned.rank,
    laned.due, laned.start_within, laned.weight, {OF_JOB}, (SELECT name FROM session WHERE session.seq = job.session)
FROM json_each(?1) AS each
CROSS JOIN laned ON laned.job IN (
    SELECT head.job FROM laned AS head
    WHERE head.lane = each.value AND head.place = {IN_LINE}
    ORDER BY head.rank, head.due, head.job LIMIT ?2
)
CROSS JOIN job ON job.seq = laned.job
ORDER BY laned.rank, laned.due, laned.job
