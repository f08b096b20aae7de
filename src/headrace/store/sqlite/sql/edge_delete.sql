-- It waits no more.
DELETE FROM edge WHERE seq = ?1
