-- Put a job that ended back in line, as if it were new.
UPDATE job SET
    state = 1, due = ?2, attempts = 0, crashes = 0, finished = NULL, deferred_since = NULL, error = NULL, failure = NULL
WHERE seq = ?1
