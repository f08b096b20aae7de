-- Note which schedule a job belongs to, and for which of its ticks.
INSERT INTO recurring (job, schedule, tick) SELECT seq, ?2, ?3 FROM job WHERE id = ?1
