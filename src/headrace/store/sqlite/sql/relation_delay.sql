-- How long to wait from when the last one is met.
UPDATE relation SET delay = ?2 WHERE job = ?1
