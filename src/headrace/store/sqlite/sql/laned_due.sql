-- Jobs of lanes that have fallen due.
SELECT job FROM laned WHERE place = 3 AND due <= ?1 ORDER BY due, job LIMIT ?2
