-- All of them have been looked at.
DELETE FROM ended WHERE seq = ?1
