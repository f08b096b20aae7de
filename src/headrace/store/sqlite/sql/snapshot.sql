-- A job, whole.
SELECT
    job.seq, job.id, task, queue, state, priority, body, options, created, due, started, finished, attempts, crashes,
    max_crashes, token, session.name, data, progress_done, progress_total, result, error, failure, flags, deferred_since
FROM job LEFT JOIN session ON session.seq = job.session
