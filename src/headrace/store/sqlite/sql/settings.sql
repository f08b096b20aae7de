-- All that has been set.
SELECT name, value FROM setting ORDER BY name
