-- Sessions, and the leases that they hold.

-- name: session_get
-- A session, as a request needs it.
SELECT seq, timeout, seen, number, answer, closed, name, memory, stop FROM session WHERE id = ?1 /*lock*/

-- name: session_open
-- Begin a session.
INSERT INTO session (id, info, name, timeout, opened, seen, seen_at, number, answer) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?5, 0, x'')

-- name: session_says
-- What a session says about itself.
UPDATE session SET info = ?2 WHERE id = ?1

-- name: session_renew
-- A session is alive. What its process takes is renewed if it is known.
UPDATE session SET seen = ?2, seen_at = ?3, memory = coalesce(?4, memory) WHERE seq = ?1

-- name: session_stop
-- Ask the worker of a session to stop.
UPDATE session SET stop = 1 WHERE id = ?1 AND +closed IS NULL

-- name: session_answer
-- Record a request as answered, and the session as seen (unless these are null).
UPDATE session SET seen = ifnull(?2, seen), seen_at = ifnull(?3, seen_at), number = ?4, answer = ?5 WHERE seq = ?1

-- name: session_close
-- End a session. Its row stays for a while, so that history can name it; instead of an answer it says how its leases end.
UPDATE session SET closed = ?2, answer = ?3 WHERE seq = ?1

-- name: sessions
-- All open sessions, and how many jobs each holds.
SELECT
    session.id, info, timeout, opened, seen, seen_at,
    (SELECT count(*) FROM job WHERE state = {RUNNING} AND job.session = session.seq), memory, stop
FROM session
WHERE closed IS NULL
ORDER BY session.seq

-- name: sessions_open
-- How many sessions are open, and the first and the last of them.
SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0) FROM session INDEXED BY session_open WHERE closed IS NULL

-- name: sessions_some
-- Some open sessions, from one on.
SELECT seq, id, timeout, seen FROM session WHERE closed IS NULL AND seq >= ?1 ORDER BY seq LIMIT ?2

-- name: sessions_holding
-- The sessions that hold jobs, closed ones that have not given back all of them included: from session to session along the index, however many jobs each holds.
WITH RECURSIVE holder (session) AS (
    SELECT (SELECT session FROM job WHERE state = {RUNNING} AND session IS NOT NULL ORDER BY session LIMIT 1)
    UNION ALL
    SELECT (SELECT session FROM job WHERE state = {RUNNING} AND session > holder.session ORDER BY session LIMIT 1)
    FROM holder WHERE holder.session IS NOT NULL
)
SELECT session.seq, session.id, session.timeout, session.seen, session.closed
FROM holder CROSS JOIN session ON session.seq = holder.session

-- name: held
-- The first jobs that a session holds.
SELECT seq, token, id, flags FROM job WHERE state = {RUNNING} AND session = ?1 ORDER BY +seq LIMIT ?2 /*lock*/

-- name: held_some
-- Those of some jobs that a session holds.
SELECT seq, token, id, flags FROM job
WHERE seq IN (SELECT value FROM json_each(?1)) AND +session = ?2 AND +state = {RUNNING}
ORDER BY seq /*lock*/
