-- Put a word on a job, once.
INSERT INTO tag (job, tag) SELECT seq, ?2 FROM job WHERE id = ?1 ON CONFLICT DO NOTHING
