-- The next queues, by name, that have ready jobs: from index entry to index entry. (queue > '': the last step finds none.)
WITH RECURSIVE ready (queue) AS (
    SELECT (SELECT queue FROM job WHERE state = 1 AND queue >= ?1 ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT queue FROM job WHERE state = 1 AND queue > ready.queue ORDER BY queue LIMIT 1)
    FROM ready WHERE ready.queue IS NOT NULL
    LIMIT ?2
)
SELECT queue FROM ready WHERE queue IS NOT NULL
