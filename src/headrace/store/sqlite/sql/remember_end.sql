-- Write into a job's history how it ended, before that is overwritten, unless that is there already.
INSERT INTO history (job, at, what, detail, worker)
SELECT job.seq, job.finished, ?2, coalesce(job.failure, ''), coalesce(session.name, '')
FROM job LEFT JOIN session ON session.seq = job.session
WHERE job.seq = ?1
    AND NOT EXISTS (SELECT 1 FROM history WHERE history.job = job.seq AND history.at = job.finished AND what = ?2)
