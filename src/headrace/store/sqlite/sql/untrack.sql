-- Keep an eye on it no longer.
DELETE FROM tracked WHERE job = ?1
