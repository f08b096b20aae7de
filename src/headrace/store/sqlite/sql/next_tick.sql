-- When does the next schedule tick?
SELECT next FROM schedule WHERE paused = 0 AND next IS NOT NULL ORDER BY next LIMIT 1
