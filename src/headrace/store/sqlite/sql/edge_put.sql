-- One job waits for another.
INSERT INTO edge (parent, child, if_failed) VALUES (?1, ?2, ?3) ON CONFLICT (child, parent) DO NOTHING
