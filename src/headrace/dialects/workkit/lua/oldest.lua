-- oldest: when the first entry is due. Changes nothing.
--
-- Answers  {now, its time in milliseconds; '' if there is none}
--@include prelude

local first = call('ZRANGE', NEXT, 0, 0, 'WITHSCORES')
return { digits(now), first[2] and digits(tonumber(first[2])) or '' }
