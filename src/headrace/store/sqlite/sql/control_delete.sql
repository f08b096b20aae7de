-- Nothing is said about it any more.
DELETE FROM control WHERE queue = ?1
