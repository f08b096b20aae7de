-- What an event tells about its job.
SELECT id, task, queue, flags FROM job WHERE seq = ?1
