-- Others wait for this job.
UPDATE job SET flags = flags | 128 WHERE seq = ?1 AND flags & 128 = 0
