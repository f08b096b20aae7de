-- The leases that one exchange handed out and that are still held: the answer to a repeated request.
SELECT
    -priority, due, seq, token, id, task, queue, body, options, data, attempts, crashes, max_crashes, created,
    deferred_since, flags
FROM job
WHERE state = 2 AND session = ?1 AND turn = ?2
