-- Remember a start.
INSERT INTO lane_start (lane, number, at) VALUES (?1, ?2, ?3)
