-- Write into a job's history how it ended, before that is overwritten.
INSERT INTO history (job, at, what, detail, worker)
SELECT job.seq, job.finished, ?2, CASE state WHEN 5 THEN coalesce(job.failure, '') ELSE '' END, coalesce(session.name, '')
FROM job LEFT JOIN session ON session.seq = job.session
WHERE job.seq = ?1
