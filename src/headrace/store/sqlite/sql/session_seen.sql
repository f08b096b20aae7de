-- Renew a session.
UPDATE session SET seen = ?2, seen_at = ?3 WHERE seq = ?1
