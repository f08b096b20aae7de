-- Keep what a job comes after.
INSERT INTO relation (job, parents, if_failed, delay) VALUES (?1, ?2, ?3, ?4)
