-- Whose dependents are to be looked at first?
SELECT seq, parent, id, how, seen, upto FROM ended ORDER BY seq LIMIT 1
