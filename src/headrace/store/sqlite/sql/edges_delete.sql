-- A job that is gone waits for nothing.
DELETE FROM edge WHERE child = ?1
