-- All open sessions, and how many jobs each holds.
SELECT
    session.seq, session.id, info, timeout, opened, seen, seen_at,
    (SELECT count(*) FROM job WHERE state = 2 AND job.session = session.seq)
FROM session
WHERE closed IS NULL
ORDER BY session.seq
