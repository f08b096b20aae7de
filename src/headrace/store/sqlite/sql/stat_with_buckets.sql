-- The oldest day before a given one that has histograms.
SELECT day FROM stat WHERE bucket >= 0 AND day < ?1 ORDER BY day LIMIT 1
