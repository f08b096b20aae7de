-- Forget the first ones of those who name a job.
DELETE FROM follower WHERE parent = ?1 AND child <= ?2
