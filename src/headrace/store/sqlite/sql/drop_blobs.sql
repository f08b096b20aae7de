-- Drop the large results of jobs that ended within a time, but for some.
DELETE FROM blob WHERE kind = 1 AND job IN (SELECT seq FROM job WHERE state = 4 AND state >= 4 AND finished > ?1 AND finished <= ?2)
    AND job NOT IN (SELECT value FROM json_each(?3))
