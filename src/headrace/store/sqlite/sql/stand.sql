-- A job's place: its state while it waits, and its due time.
UPDATE job SET state = ?2, due = ?3 WHERE seq = ?1
