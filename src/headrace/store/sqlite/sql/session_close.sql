-- End a session. Its row stays for a while, so that history can name it; instead of an answer it says how its leases end.
UPDATE session SET closed = ?2, answer = ?3 WHERE seq = ?1
