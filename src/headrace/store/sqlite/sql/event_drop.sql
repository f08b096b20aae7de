-- Events that are not kept any longer.
DELETE FROM event WHERE seq <= ?1
