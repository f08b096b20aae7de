-- Remember how many writes have been committed, this transaction's among them.
UPDATE server SET commitCount = ?1
