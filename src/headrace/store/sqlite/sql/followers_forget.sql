-- Of those who name an ended job, forget the first ones, as far as they have ended.
DELETE FROM follower
WHERE parent = ?1 AND child < ?2 AND NOT EXISTS (SELECT 1 FROM job WHERE job.seq = follower.child AND job.state < 4)
