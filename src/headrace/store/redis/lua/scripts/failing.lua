-- failing: when jobs failed in some groups.
--
-- ARGV[2..]  groups
-- Answers    {now, {what is known of a group (see the file failing.lua beside this folder), or false, ...}}
--@include current

return { string.format('%.0f', now), read_many('HMGET', PREFIX .. 'failing', arguments(2)) }
