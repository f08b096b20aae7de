-- A job has ended: note it if somebody waits for it.
INSERT INTO ended (parent, id, how, seen, upto)
SELECT ?1, ?2, ?3, 0, seq FROM edge WHERE parent = ?1 ORDER BY seq DESC LIMIT 1
