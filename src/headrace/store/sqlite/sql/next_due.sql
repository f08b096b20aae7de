-- When does the next scheduled job fall due?
SELECT due FROM job WHERE state = 0 ORDER BY due LIMIT 1
