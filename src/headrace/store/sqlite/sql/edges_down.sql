-- Some of those who wait for a job that has ended.
SELECT edge.seq, child, if_failed, job.id, job.queue, job.state, job.flags, job.due
FROM edge JOIN job ON job.seq = edge.child
WHERE edge.parent = ?1 AND edge.seq > ?2 AND edge.seq <= ?3
ORDER BY edge.seq LIMIT ?4
