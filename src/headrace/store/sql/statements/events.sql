-- Events for subscribers.

-- name: audience_get
-- Until when there is a subscriber.
SELECT until FROM audience WHERE one = 1

-- name: audience_set
-- There is a subscriber, until then at least.
INSERT INTO audience (one, until) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET until = excluded.until

-- name: event_put
-- Write an event.
INSERT INTO event (at, what, job, task, queue, worker, detail, tracked) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: event_read
-- What happened after a given event.
SELECT seq, at, what, job, task, queue, worker, detail, tracked FROM event WHERE seq > ?1 ORDER BY seq LIMIT ?2

-- name: event_any
-- Are there any events?
SELECT 1 FROM event LIMIT 1

-- name: event_drop
-- Events that are not kept any longer.
DELETE FROM event WHERE seq <= ?1
