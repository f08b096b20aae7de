-- Data without its count of tries, otherwise untouched; NULL when it is no JSON.
SELECT CASE WHEN json_valid(?1) THEN
    CASE WHEN json_type(?1, '$.retryAfterCount') IS NULL THEN ?1 ELSE json_remove(?1, '$.retryAfterCount') END
END
