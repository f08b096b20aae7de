-- Why a job has failed, and whether that was because of another one.
SELECT error, EXISTS (SELECT 1 FROM culprit WHERE child = ?1) FROM job WHERE seq = ?1 AND state = 5
