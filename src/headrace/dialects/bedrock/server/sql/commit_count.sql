-- How many writes had been committed when the server was last here?
SELECT commitCount FROM server
