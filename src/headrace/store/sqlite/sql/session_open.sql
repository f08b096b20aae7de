-- Begin a session.
INSERT INTO session (id, info, name, timeout, opened, seen, seen_at, number, answer) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?5, 0, x'')
