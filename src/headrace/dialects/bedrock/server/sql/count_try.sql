-- One try more, and perhaps when it was due; what is not JSON stays as it is.
UPDATE jobs SET data = CASE
    WHEN NOT json_valid(data) THEN data
    WHEN ?3 IS NULL THEN json_set(data, '$.retryAfterCount', ?2)
    ELSE json_set(data, '$.retryAfterCount', ?2, '$.originalNextRun', ?3)
END
WHERE jobID = ?1
