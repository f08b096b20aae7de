-- audit: what operators have done, the newest first.
--
-- ARGV[2]  how many acts at most
-- ARGV[3]  '' or the number of the act before which to begin
-- Answers  {number, {field, value, ...}}, ...
--@include current

check_type(PREFIX .. 'audit', 'stream')
return call('XREVRANGE', PREFIX .. 'audit', ARGV[3] == '' and '+' or '(' .. ARGV[3], '-', 'COUNT', ARGV[2])
