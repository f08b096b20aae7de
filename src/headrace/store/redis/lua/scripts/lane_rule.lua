-- lane_rule: set the limit, or the rate, of a lane for good, or clear what was set.
--
-- ARGV[2]  set or clear
-- ARGV[3]  queue
-- ARGV[4]  key
-- ARGV[5]  the limit: '' leaves it as it is, 0 is none
-- ARGV[6]  the rate in the same way, ARGV[7] within how many milliseconds
-- ARGV[8]  by whom
-- Answers  1, or 0 if nothing was set that could be cleared
-- Fails    REFUSED
--@include current commit

local act, queue, key = ARGV[2], ARGV[3], ARGV[4]
local name = lanes.name(queue, key)
check_type(lanes.rules, 'hash')
local rule, words = lanes.rule_of(name), 'cleared'
if act == 'clear' then
  if not rule then
    return 0
  end
  rule = nil
else
  for i = 3, 8 do
    checks.text(ARGV[i] or 0, 'What is set for a lane')
  end
  local limit, rate, per, parts = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), {}
  checks.integer(limit or 0, 0, LATEST, 'The limit of a lane')
  checks.integer(rate or 0, 0, HIGHEST_RATE, 'The rate of a lane')
  checks.integer(per or 0, 1, LATEST, 'The period of the rate of a lane')
  if key == '' or not (limit or rate) then
    checks.refuse('A lane has a key, and a limit or a rate is set for it.')
  end
  rule = rule or {}
  rule.by, rule.at = ARGV[8], now
  if limit then
    rule.limit = limit
    parts[1] = 'limit ' .. lanes.number_in_words(limit)
  end
  if rate then
    rule.rate, rule.per = rate, rate > 0 and per or 1000
    parts[#parts + 1] = 'rate ' .. lanes.rate_in_words(rate, per)
  end
  words = table.concat(parts, ', ')
end
if has_subscribers() then
  happened_to('', pack('>Hc0Hc0', #queue, queue, 0, ''), 1, 'set', 'lane ' .. key .. ': ' .. words, '')
end
lanes.govern(name, rule)
commit(even_when_full)
return 1
