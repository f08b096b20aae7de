-- The server's own counter.

-- name: commit_count
-- How many writes had been committed when the server stopped?
SELECT commitCount FROM server

-- name: save_commit_count
-- Remember how many writes have been committed, this transaction's among them.
UPDATE server SET commitCount = ?1
