-- Write into the history of a job that has run how it ended otherwise.
INSERT INTO history (job, at, what, detail, worker)
SELECT seq, ?2, ?3, ?4, '' FROM job WHERE seq = ?1 AND started IS NOT NULL
