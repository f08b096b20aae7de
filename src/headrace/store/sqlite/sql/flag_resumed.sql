-- This job has waited for children: they are in its line in relation.
UPDATE job SET flags = flags | 8256 WHERE seq = ?1
