-- Write into a job's history when its last run began, unless that is there already.
INSERT INTO history (job, at, what, detail, worker)
SELECT job.seq, job.started, 'started', '', coalesce(session.name, '')
FROM job LEFT JOIN session ON session.seq = job.session
WHERE job.seq = ?1 AND job.started IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM history WHERE history.job = job.seq AND history.at = job.started AND what = 'started')
