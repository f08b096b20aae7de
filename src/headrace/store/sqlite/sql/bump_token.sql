-- A lease was taken away: whatever its holder still says about it is stale.
UPDATE job SET token = token + 1 WHERE seq = ?1
