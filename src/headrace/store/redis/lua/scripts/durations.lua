-- durations: what was summed up of a queue on a day.
--
-- ARGV[2]  queue
-- ARGV[3]  day
-- Answers  {{field, value, ...}: see stats.lua, first day that is kept, first day with histograms}
--@include current stats

return {
  numbers_in(PREFIX .. 'stat:' .. ARGV[3] .. ':' .. ARGV[2]), first_day('stats-history'), first_day('histogram-history'),
}
