-- It names it no more.
DELETE FROM follower WHERE parent = (SELECT seq FROM job WHERE id = ?1) AND child = ?2
