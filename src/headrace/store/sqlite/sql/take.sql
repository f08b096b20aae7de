-- Hand out the head of a queue's line to a session. (OR FAIL: without it SQLite would keep a copy of each page it changes,
-- in case that the statement fails half-way; here the whole transaction is taken back then.)
UPDATE OR FAIL job SET
    state = 2, token = token + 1, session = ?1, turn = ?2, started = ?3, flags = (flags & ~2) | ?4
WHERE seq IN (
    SELECT seq FROM job WHERE state = 1 AND queue = ?5 ORDER BY priority DESC, due, seq LIMIT ?6
)
