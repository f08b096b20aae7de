-- A session, as a request needs it.
SELECT seq, timeout, seen, number, answer, closed, name FROM session WHERE id = ?1
