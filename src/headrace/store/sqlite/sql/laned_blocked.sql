-- How many stand in a lane's own line.
SELECT count(*) FROM laned WHERE lane = ?1 AND place = 1
