-- The sessions that hold jobs, closed ones that have not given back all of them included: from session to session along the index, however many jobs each holds.
WITH RECURSIVE holder (session) AS (
    SELECT (SELECT session FROM job WHERE state = 2 AND session IS NOT NULL ORDER BY session LIMIT 1)
    UNION ALL
    SELECT (SELECT session FROM job WHERE state = 2 AND session > holder.session ORDER BY session LIMIT 1)
    FROM holder WHERE holder.session IS NOT NULL
)
SELECT session.seq, session.id, session.timeout, session.seen, session.closed
FROM holder CROSS JOIN session ON session.seq = holder.session
