-- The time before which done jobs are beyond the number to keep.
SELECT finished FROM job WHERE state = 4 AND state >= 4 ORDER BY finished DESC LIMIT 1 OFFSET ?1
