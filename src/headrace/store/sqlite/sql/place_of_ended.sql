-- Where an ended job is in the order that retention goes by.
SELECT finished, queue, seq FROM job WHERE seq = (SELECT value FROM progress WHERE name = ?1) AND state = ?2
