-- Which lane a job is in, and where.
SELECT key, running_limit, rate, per, sequence, place, rank, due FROM laned WHERE job = ?1
