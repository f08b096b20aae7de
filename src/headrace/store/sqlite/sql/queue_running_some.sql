-- Some of the jobs of a queue that run, and their workers.
SELECT job.id, session.name
FROM session CROSS JOIN job INDEXED BY job_held ON job.session = session.seq AND job.state = 2 AND job.queue = ?1
WHERE session.closed IS NULL
ORDER BY job.seq LIMIT ?2
