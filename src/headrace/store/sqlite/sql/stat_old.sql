-- The oldest day before a given one that has statistics.
SELECT day FROM stat WHERE day < ?1 ORDER BY day LIMIT 1
