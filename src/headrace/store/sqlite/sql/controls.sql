-- What has been said about queues.
SELECT queue, running_limit, paused_by, paused_at FROM control ORDER BY queue
