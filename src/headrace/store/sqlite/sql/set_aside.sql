-- A damaged job fails; its numbers are such as jobs have, and all else is kept.
UPDATE job SET
    state = 5, flags = ?2, finished = ?3, failure = ?4, error = ?5, token = max(token, 0), attempts = max(attempts, 0),
    crashes = max(crashes, 0)
WHERE seq = ?1
