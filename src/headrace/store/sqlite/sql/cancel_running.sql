-- Ask a running job to stop.
UPDATE job SET flags = flags | 1 WHERE seq = ?1
