-- So far they have been looked at.
UPDATE ended SET seen = ?2 WHERE seq = ?1
