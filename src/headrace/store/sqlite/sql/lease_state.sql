-- Is a lease still held, and is it to stop?
SELECT flags & 1 FROM job WHERE seq = ?1 AND token = ?2 AND session = ?3 AND state = 2
