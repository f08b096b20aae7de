-- What kind of job stands first in a queue's line.
SELECT flags FROM job WHERE state = 1 AND queue = ?1 ORDER BY priority DESC, due, seq LIMIT 1
