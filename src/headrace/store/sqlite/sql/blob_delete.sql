-- Remove such a value.
DELETE FROM blob WHERE job = ?1 AND kind = ?2
