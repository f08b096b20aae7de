-- Some of what a job waits for.
SELECT job.id, job.state FROM edge JOIN job ON job.seq = edge.parent WHERE child = ?1 ORDER BY edge.seq LIMIT ?2
