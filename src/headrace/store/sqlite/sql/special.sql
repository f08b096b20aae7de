-- Is there anything beyond plain jobs that an exchange has to look at? And when does the next schedule tick?
SELECT
    EXISTS (SELECT 1 FROM ended), EXISTS (SELECT 1 FROM lane), EXISTS (SELECT 1 FROM control),
    (SELECT next FROM schedule WHERE paused = 0 AND next IS NOT NULL ORDER BY next LIMIT 1)
