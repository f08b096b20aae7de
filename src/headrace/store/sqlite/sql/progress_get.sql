-- How far upkeep of a kind has come.
SELECT value FROM progress WHERE name = ?1
