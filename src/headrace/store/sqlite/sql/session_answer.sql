-- Record a request as answered, and the session as seen (unless these are null).
UPDATE session SET seen = ifnull(?2, seen), seen_at = ifnull(?3, seen_at), number = ?4, answer = ?5 WHERE seq = ?1
