-- Go back to the default.
DELETE FROM setting WHERE name = ?1
