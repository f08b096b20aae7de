-- Move what has fallen due into the lines of its queues, in bounded steps.
UPDATE job SET state = 1
WHERE seq IN (SELECT seq FROM job WHERE state = 0 AND due <= ?1 ORDER BY due LIMIT ?2)
