-- Back in line as it was created, whatever state it was in.
UPDATE jobs SET state = ?2, nextRun = created, name = CASE WHEN ?3 = '' THEN name ELSE ?3 END,
    data = CASE WHEN ?4 AND json_valid(data)
        THEN json_set(data, '$.retryAfterCount', max(0, coalesce(json_extract(data, '$.retryAfterCount'), 1) - 1))
        ELSE data END
WHERE jobID = ?1
