-- note: write down what an operator has done. A stream keeps the last acts.
--
-- ARGV[2...4]  who, what, about what
-- Answers      the number of the act
--@include current checks

check_type(PREFIX .. 'audit', 'stream')
for i = 2, 4 do
  checks.text(ARGV[i], 'A part of the note')
end
return call('XADD', PREFIX .. 'audit', 'MAXLEN', '~', ACTS_KEPT, '*', 'at', string.format('%.0f', now), 'who', ARGV[2],
  'what', ARGV[3], 'about', ARGV[4])
