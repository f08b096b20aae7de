-- Write a line of a job's history.
INSERT INTO history (job, at, what, detail, worker) VALUES (?1, ?2, ?3, ?4, ?5)
