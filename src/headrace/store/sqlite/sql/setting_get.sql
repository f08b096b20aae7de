-- What has been set under a name.
SELECT value FROM setting WHERE name = ?1
