-- What a job waits for, by name; parents that are gone are in `ended`.
SELECT
    edge.seq, coalesce(job.id, (SELECT id FROM ended WHERE ended.parent = edge.parent LIMIT 1)), job.state
FROM edge LEFT JOIN job ON job.seq = edge.parent
WHERE child = ?1
