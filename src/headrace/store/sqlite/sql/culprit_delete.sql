-- That one was revived.
DELETE FROM culprit WHERE child = ?1 AND parent = ?2
