-- A lane's first job has come.
INSERT INTO lane (queue, key, running_limit, rate, per, sequence, unfinished, running, starts)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, 0)
