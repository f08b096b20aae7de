-- New arguments for a job that was moved to its next stage.
UPDATE job SET body = ?2, flags = (flags & ~16) | ?3 WHERE seq = ?1
