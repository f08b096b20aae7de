-- Until when somebody listens.
SELECT until FROM audience WHERE one = 1
