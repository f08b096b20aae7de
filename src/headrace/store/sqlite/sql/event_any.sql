-- Are there any events?
SELECT 1 FROM event LIMIT 1
