-- Changes of jobs from outside a run.

-- name: update
-- What UpdateJob replaces.
UPDATE jobs SET data = ?2, repeat = ?3, priority = ?4, nextRun = ?5 WHERE jobID = ?1

-- name: tidy_json
-- JSON without blanks; an empty object for a text that is not JSON.
SELECT CASE WHEN json_valid(?1) THEN json(?1) ELSE '{}' END

-- name: requeue
-- Back in line as it was created, whatever state it was in.
UPDATE jobs SET state = ?2, nextRun = created, name = CASE WHEN ?3 = '' THEN name ELSE ?3 END,
    data = CASE WHEN ?4 AND json_valid(data)
        THEN json_set(data, '$.retryAfterCount', max(0, coalesce(json_extract(data, '$.retryAfterCount'), 1) - 1))
        ELSE data END
WHERE jobID = ?1
