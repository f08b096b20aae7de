-- Say in a job's row whether somebody keeps an eye on it.
UPDATE job SET flags = (flags & ~1024) | ?2 WHERE seq = ?1
