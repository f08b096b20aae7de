-- The same, by its id.
SELECT seq, id, queue, state, priority, due, flags FROM job WHERE id = ?1
