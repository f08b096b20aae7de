-- Fetch such a value.
SELECT bytes FROM blob WHERE job = ?1 AND kind = ?2
