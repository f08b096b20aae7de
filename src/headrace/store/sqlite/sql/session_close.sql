-- End a session. Its row stays for a while, so that history can name it.
UPDATE session SET closed = ?2, answer = x'' WHERE seq = ?1
