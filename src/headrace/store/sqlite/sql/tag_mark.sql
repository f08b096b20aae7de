-- Say in a job's row whether it has any words on it.
UPDATE job SET flags = (flags & ~512) | CASE WHEN EXISTS (SELECT 1 FROM tag WHERE job = ?1) THEN 512 ELSE 0 END WHERE seq = ?1
