-- A job names nobody any more.
DELETE FROM follower WHERE child = ?1
