-- It comes after others now.
INSERT INTO relation (job, parents, if_failed, delay) VALUES (?1, ?2, 1, NULL) ON CONFLICT (job) DO UPDATE SET parents = excluded.parents
