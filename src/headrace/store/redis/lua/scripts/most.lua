-- most: the most used tags, or the groups with the most failures.
--
-- ARGV[2]  'tags' or 'groups'
-- ARGV[3]  how many at most
-- Answers  {name, minus how many jobs, ...}, most first, then by name
--@include current

return call('ZRANGE', PREFIX .. ARGV[2], 0, ARGV[3] - 1, 'WITHSCORES')
