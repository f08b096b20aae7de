-- What a settle needs to know about a job before it changes it.
SELECT token, state, session, flags, crashes, max_crashes, due, deferred_since, queue, id, started FROM job WHERE seq = ?1
