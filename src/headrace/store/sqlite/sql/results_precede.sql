-- Jobs that others come after and that ended within a time, with a result.
SELECT seq FROM job
WHERE state = 4 AND state >= 4 AND finished > ?1 AND finished <= ?2 AND flags & 128 != 0 AND (result IS NOT NULL OR flags & 32 != 0)
