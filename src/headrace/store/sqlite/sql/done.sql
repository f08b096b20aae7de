-- Settle as done, if the session holds it with this token; not jobs with these flags, whose end concerns others.
UPDATE job SET
    state = 4, result = ?4, started = coalesce(?5, started), finished = ?6, attempts = attempts + ?7,
    flags = (flags & ~35) | ?8, data = coalesce(?9, data), error = NULL, failure = NULL, deferred_since = NULL
WHERE seq = ?1 AND token = ?2 AND session = ?3 AND state = 2 AND flags & ?10 = 0
