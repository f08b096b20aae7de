-- events: what happened since. Keeps the subscription up for another minute.
--
-- ARGV[2]  where to go on: an id of the stream, or empty to begin to listen
-- ARGV[3]  how many events at most
-- Answers  {where to go on, 1 if there were others that are not kept any more, event (see wait.lua), ...}
--@include current wait

local LISTENS, SOON = 60000, 40000
local cursor, limit = ARGV[2], tonumber(ARGV[3])
if not has_subscribers() then
  -- An entry to begin with: a subscriber that does not find the entry it has read last has missed some.
  local first = call('XADD', EVENTS, '*', 'e', '')
  call('PEXPIRE', EVENTS, LISTENS)
  return { first, cursor == '' and 0 or 1 }
end
local found
if cursor == '' then
  found = call('XREVRANGE', EVENTS, '+', '-', 'COUNT', 1)
else
  found = call('XRANGE', EVENTS, cursor, '+', 'COUNT', limit + 1)
  if not found[1] then -- this is another stream, and the clock was set back
    found = call('XRANGE', EVENTS, '-', '+', 'COUNT', limit)
  end
end
local known = cursor == '' or found[1] and found[1][1] == cursor
local answer = { cursor, known and 0 or 1 }
for i = known and 2 or 1, #found do
  answer[#answer + 1] = found[i][2][2] or ''
end
if not known and #found > limit then
  found[#found] = nil
  answer[#answer] = nil
end
if found[1] then
  answer[1] = found[#found][1]
end
if call('PTTL', EVENTS) < SOON then
  call('PEXPIRE', EVENTS, LISTENS)
end
return answer
