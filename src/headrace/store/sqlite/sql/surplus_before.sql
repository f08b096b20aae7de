-- The time before which ended jobs of one state are beyond the number to keep.
SELECT finished FROM job WHERE state = ?1 AND state >= 4 ORDER BY finished DESC LIMIT 1 OFFSET ?2
