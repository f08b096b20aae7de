-- lines: how many jobs of a function wait, are scheduled for later, or are in the hands of headrace workers.
--
-- ARGV[2...]  functions
-- Answers     {waiting, scheduled for later, leased, count:FN or false, of these ours} per function
--@include prelude

local answers = {}
for i = 2, #ARGV do
  local fn = ARGV[i]
  local later = call('ZCOUNT', queue_key(fn, 'scheduled'), '(' .. digits(math.floor(now / 1000)), '+inf')
  local waiting = call('ZCARD', queue_key(fn, 'scheduled')) - later
  for level = 2, 4 do
    waiting = waiting + call('LLEN', queue_key(fn, LEVELS[level]))
  end
  answers[i - 1] = { waiting, later, call('ZCARD', leases_key(fn)), call('GET', 'count:' .. fn),
    call('ZCARD', SIDE .. fn .. ':workers') }
end
return answers
