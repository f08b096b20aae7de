-- What has been said about a queue.
SELECT queue, running_limit, paused_by, paused_at FROM control WHERE queue = ?1
