-- Tell those who listen.
INSERT INTO event (at, what, job, task, queue, worker, detail, tracked) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
