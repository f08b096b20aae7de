-- Who has this unique key?
SELECT job.seq, job.id, job.state, unique_key.until, job.flags
FROM unique_key JOIN job ON job.seq = unique_key.job
WHERE unique_key.key = ?1
