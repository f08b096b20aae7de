-- The server's own counter.

-- name: commit_count
-- How many writes had been committed when the server stopped?
SELECT commitCount FROM server

-- name: save_commit_count
-- Remember how many writes have been committed, this transaction's among them.
UPDATE server SET commitCount = ?1

-- name: count_commit
-- One more write is committed, with this transaction.
UPDATE server SET commitCount = commitCount + 1

-- name: given_id
-- The highest id that a job was ever given.
SELECT seq FROM sqlite_sequence WHERE name = 'jobs'
