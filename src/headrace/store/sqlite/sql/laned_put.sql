-- Keep which lane a job was put into.
INSERT INTO laned (job, key, running_limit, rate, per, sequence, place, rank, due) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, 0)
