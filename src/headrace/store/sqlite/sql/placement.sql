-- What admission needs to know about a job.
SELECT seq, id, queue, state, priority, due, flags FROM job WHERE seq = ?1
