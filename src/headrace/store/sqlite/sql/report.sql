-- Progress and data of a running job.
UPDATE job SET
    progress_done = coalesce(?4, progress_done), progress_total = coalesce(?5, progress_total), data = coalesce(?6, data)
WHERE seq = ?1 AND token = ?2 AND session = ?3 AND state = 2
RETURNING seq
