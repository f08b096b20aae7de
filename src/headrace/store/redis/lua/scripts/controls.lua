-- controls: which queues are paused, or have a limit.
--
-- Answers  {p or l and the queue, value, ...}: p when and by whom it was paused, l its limit
--@include current

local said = call('HGETALL', CONTROL)
for i = 1, #said, 2 do
  if not said[i + 1]:find(said[i]:sub(1, 1) == 'p' and '^%d+ ' or '^%d+$') then
    fail('CORRUPT', PREFIX .. 'control says nothing in field ' .. said[i])
  end
end
return said
