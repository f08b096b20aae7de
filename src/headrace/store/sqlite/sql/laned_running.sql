-- Some of a lane's jobs that run.
SELECT job.id FROM laned JOIN job ON job.seq = laned.job WHERE lane = ?1 AND place = 2 ORDER BY rank, laned.due, laned.job LIMIT ?2
