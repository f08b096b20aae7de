-- Give a unique key to the job with this id.
INSERT INTO unique_key (key, job, until) SELECT ?1, seq, ?2 FROM job WHERE id = ?3
ON CONFLICT (key) DO UPDATE SET job = excluded.job, until = excluded.until
