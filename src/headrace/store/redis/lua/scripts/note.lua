-- note: write down what an operator has done. A stream keeps the last acts, of the last 90 days.
--
-- ARGV[2...4]  who, what, about what
-- Answers      the number of the act
--@include current checks

check_type(PREFIX .. 'audit', 'stream')
for i = 2, 4 do
  checks.text(ARGV[i], 'A part of the note')
end
for _, act in ipairs(call('XRANGE', PREFIX .. 'audit', '-', '+', 'COUNT', ACTS_IN_A_STEP)) do
  if tonumber(act[2][2]) >= now - ACTS_KEPT_FOR then -- (`at` is the first field)
    break
  end
  redis.pcall('XDEL', PREFIX .. 'audit', act[1])
end
return call('XADD', PREFIX .. 'audit', 'MAXLEN', '~', ACTS_KEPT, '*', 'at', string.format('%.0f', now), 'who', ARGV[2],
  'what', ARGV[3], 'about', ARGV[4])
