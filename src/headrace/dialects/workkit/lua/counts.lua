-- counts: how many jobs there are, of which kind. Changes nothing.
--
-- ARGV[2]  the longest lease, milliseconds: entries that may be leased lie within it
-- Answers  {now, jobs, entries, due, leased}. Leases are told by their scores, which are not whole seconds; of very many the first 10,000 are looked at.
--@include prelude

local leased = 0
local near = call('ZRANGEBYSCORE', NEXT, '(' .. digits(now), digits(now + ARGV[2]), 'WITHSCORES', 'LIMIT', 0, 10000)
for i = 2, #near, 2 do
  if tonumber(near[i]) % 1000 ~= 0 then
    leased = leased + 1
  end
end
return { digits(now), call('HLEN', JOBS), call('ZCARD', NEXT), call('ZCOUNT', NEXT, '-inf', digits(now)), leased }
