-- How many sessions are open, and the first and the last of them.
SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0) FROM session INDEXED BY session_open WHERE closed IS NULL
