-- What a session says about itself.
UPDATE session SET info = ?2 WHERE id = ?1
