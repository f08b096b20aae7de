-- Write into a job's history when its last run began.
INSERT INTO history (job, at, what, detail, worker)
SELECT job.seq, job.started, 'started', '', coalesce(session.name, '')
FROM job LEFT JOIN session ON session.seq = job.session
WHERE job.seq = ?1 AND job.started IS NOT NULL
