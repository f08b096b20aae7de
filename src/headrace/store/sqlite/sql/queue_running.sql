-- How many jobs of a queue run, up to a number: session by session, as only queues with a limit are counted.
SELECT count(*) FROM (
    SELECT 1 FROM session CROSS JOIN job INDEXED BY job_held ON job.session = session.seq AND job.state = 2 AND job.queue = ?1
    WHERE session.closed IS NULL LIMIT ?2
)
