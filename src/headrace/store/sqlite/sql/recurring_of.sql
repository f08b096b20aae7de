-- The schedule of a job, and its tick.
SELECT schedule, tick FROM recurring WHERE job = ?1
