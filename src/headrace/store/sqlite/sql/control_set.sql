-- Say something about a queue.
INSERT OR REPLACE INTO control (queue, running_limit, paused_by, paused_at) VALUES (?1, ?2, ?3, ?4)
