-- recount: set count:FN to the number of headrace workers that are registered and alive. Only if no peer's worker runs.
--
-- ARGV[2]  function
-- Answers  the new count
--@include prelude

local workers = call('ZCOUNT', SIDE .. ARGV[2] .. ':workers', '(' .. digits(steady), '+inf')
if workers == 0 then
  call('DEL', 'count:' .. ARGV[2])
else
  call('SET', 'count:' .. ARGV[2], workers)
end
return workers
