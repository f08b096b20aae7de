-- The jobs of a name in every state, oldest first: what a unique job may clash with.
SELECT jobID, parentJobID, data FROM jobs WHERE name = ?1 ORDER BY jobID
