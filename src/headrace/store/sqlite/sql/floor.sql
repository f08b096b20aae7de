-- How far down one look for jobs goes.
SELECT seq FROM job WHERE seq < ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2
