-- One job has failed because of another.
INSERT INTO culprit (child, parent) VALUES (?1, ?2) ON CONFLICT DO NOTHING
