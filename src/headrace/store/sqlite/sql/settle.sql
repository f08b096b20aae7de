-- Settle as anything but done: the new state has been worked out from the old one.
UPDATE job SET
    state = ?2, due = ?3, queue = coalesce(?4, queue), task = coalesce(?5, task),
    attempts = CASE WHEN ?6 IS NULL THEN 0 ELSE attempts + ?6 END, crashes = ?7, flags = ?8,
    started = coalesce(?9, started), finished = ?10, deferred_since = ?11, data = coalesce(?12, data),
    error = coalesce(?13, error), failure = coalesce(?14, failure)
WHERE seq = ?1
