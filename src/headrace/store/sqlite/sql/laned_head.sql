-- Who is next in a lane's own line?
SELECT job, due FROM laned WHERE lane = ?1 AND place = 1 ORDER BY rank, due, job LIMIT 1
