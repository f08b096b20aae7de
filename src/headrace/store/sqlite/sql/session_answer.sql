-- Record a request as answered, and the session as seen.
UPDATE session SET seen = ?2, seen_at = ?3, number = ?4, answer = ?5 WHERE seq = ?1
