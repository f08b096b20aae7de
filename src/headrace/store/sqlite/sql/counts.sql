-- How many jobs are in which state, per queue; each state by the index that lists it.
SELECT queue, 0, count(*) FROM job INDEXED BY job_scheduled WHERE state = 0 GROUP BY queue
UNION ALL SELECT queue, 1, count(*) FROM job INDEXED BY job_ready WHERE state = 1 GROUP BY queue
UNION ALL SELECT queue, 2, count(*) FROM job INDEXED BY job_held WHERE state = 2 GROUP BY queue
UNION ALL SELECT queue, 3, count(*) FROM job INDEXED BY job_blocked WHERE state = 3 GROUP BY queue
UNION ALL SELECT queue, state, count(*) FROM job INDEXED BY job_finished WHERE state >= 4 GROUP BY queue, state
