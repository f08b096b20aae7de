-- Say in jobs that ended within a time, but for some, that their results are gone.
UPDATE job SET result = NULL, flags = (flags & ~32) | 4096
WHERE state = 4 AND state >= 4 AND finished > ?1 AND finished <= ?2 AND (result IS NOT NULL OR flags & 32 != 0)
    AND seq NOT IN (SELECT value FROM json_each(?3))
