-- The end of a bounded step through done jobs, in the order in which they ended.
SELECT finished FROM job WHERE state = 4 AND state >= 4 AND finished > ?1 AND finished <= ?2 ORDER BY finished LIMIT 1 OFFSET ?3
