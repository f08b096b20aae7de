-- What a schedule hears about a job of its own.
SELECT recurring.schedule, job.id, job.state, job.started, job.finished, job.data
FROM recurring JOIN job ON job.seq = recurring.job
WHERE recurring.job = ?1
