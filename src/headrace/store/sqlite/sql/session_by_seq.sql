-- A session, by its row.
SELECT seq, timeout, seen, number, answer, closed, name FROM session WHERE seq = ?1
