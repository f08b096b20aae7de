-- A list of parents that cannot be read is empty.
UPDATE relation SET parents = '[]' WHERE job = ?1 AND NOT json_valid(parents)
