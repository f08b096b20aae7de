-- One job names another among those it comes after.
INSERT INTO follower (parent, child) VALUES (?1, ?2) ON CONFLICT DO NOTHING
