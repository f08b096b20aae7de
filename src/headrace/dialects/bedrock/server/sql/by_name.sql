-- The oldest job of a name and a kind (real or mocked), in whatever state: what a unique job may clash with.
SELECT jobID, CAST(parentJobID AS INTEGER), CAST(data AS BLOB) FROM jobs WHERE name = ?1 AND {mocked} = ?2 ORDER BY jobID LIMIT 1
