-- The head of a queue's line, as it will be once `take` has handed it out.
SELECT
    -priority, due, seq, token + 1, id, task, queue, body, options, data, attempts, crashes, max_crashes, created,
    deferred_since, (flags & ~2) | ?1
FROM job
WHERE state = 1 AND queue = ?2
ORDER BY priority DESC, due, seq
LIMIT ?3
