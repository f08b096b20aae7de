-- Has a job failed because of others that were not revived?
SELECT 1 FROM culprit WHERE child = ?1 LIMIT 1
