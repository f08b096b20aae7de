-- Nothing is left to remember about a lane.
DELETE FROM lane WHERE seq = ?1
