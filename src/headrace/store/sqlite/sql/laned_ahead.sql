-- How many come before a job in its lane's own line.
SELECT count(*) FROM laned WHERE lane = ?1 AND place = 1 AND (rank, due, job) < (?2, ?3, ?4)
