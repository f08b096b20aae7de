-- The queue of the first job that has fallen due and is not in line yet.
SELECT queue FROM job WHERE state = 0 AND due <= ?1 ORDER BY due LIMIT 1
