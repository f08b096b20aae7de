-- Has a queue got lanes?
SELECT 1 FROM lane WHERE queue = ?1 LIMIT 1
