-- What happened after a given event.
SELECT seq, at, what, job, task, queue, worker, detail, tracked FROM event WHERE seq > ?1 ORDER BY seq LIMIT ?2
