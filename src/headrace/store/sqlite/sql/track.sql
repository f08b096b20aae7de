-- Keep an eye on a job.
INSERT INTO tracked (job) VALUES (?1) ON CONFLICT DO NOTHING
