-- Settle many as done that have no results, and began and ended together: by seq, not by all that the session holds. (OR
-- FAIL: as in `take`.)
UPDATE OR FAIL job SET
    state = 4, result = NULL, started = coalesce(?4, started), finished = ?5, attempts = attempts + ?6,
    flags = flags & ~35, error = NULL, failure = NULL, deferred_since = NULL
WHERE seq IN (SELECT value FROM json_each(?1))
    AND token = ?2 AND +session = ?3 AND state = 2 AND flags & ?7 = 0
