-- Only so many lines of a job's history are kept: the newest.
DELETE FROM history
WHERE job = ?1 AND seq <= (SELECT seq FROM history WHERE job = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)
