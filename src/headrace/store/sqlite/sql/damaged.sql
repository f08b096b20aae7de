-- Jobs whose rows say what cannot be: no such state, unknown flags, or flags that promise what is not there.
SELECT seq, id, queue, state, priority, due, flags, token FROM job
WHERE state NOT BETWEEN 0 AND 6 OR flags NOT BETWEEN 0 AND ?1 OR min(token, attempts, crashes) < 0
    OR flags & 16 AND NOT EXISTS (SELECT 1 FROM blob WHERE blob.job = job.seq AND kind = 0)
    OR flags & 32 AND NOT EXISTS (SELECT 1 FROM blob WHERE blob.job = job.seq AND kind = 1)
    OR flags & 64 AND NOT coalesce((SELECT json_valid(parents) FROM relation WHERE relation.job = job.seq), 0)
    OR flags & 256 AND NOT EXISTS (SELECT 1 FROM laned WHERE laned.job = job.seq)
    OR flags & 2048 AND NOT EXISTS (SELECT 1 FROM recurring WHERE recurring.job = job.seq)
LIMIT ?2
