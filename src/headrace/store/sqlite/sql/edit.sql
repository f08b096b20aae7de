-- Change a job that waits.
UPDATE job SET
    queue = coalesce(?2, queue), priority = coalesce(?3, priority), options = coalesce(?4, options), data = coalesce(?5, data)
WHERE seq = ?1
