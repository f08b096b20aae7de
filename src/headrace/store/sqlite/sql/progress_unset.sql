-- Begin anew.
DELETE FROM progress WHERE name = ?1
