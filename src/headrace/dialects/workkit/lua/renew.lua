-- renew: put the ends of leases off. Without leases: what time is it?
--
-- ARGV[2…] per lease: member, id, token, new token
-- Answers  {now, verdicts}: OK, STALE (lost), LATER (a published listener has it out for an instant: it is still ours),
--          AS_WISHED (it has the new token already), GONE (the job was removed)
--@include prelude

check_types()
local verdicts = {}
for i = 2, #ARGV, 4 do
  local member, id, token, later = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local score = tonumber(call('ZSCORE', NEXT, member))
  local verdict
  if call('HEXISTS', JOBS, id) == 0 then
    verdict = GONE
  elseif not score then
    verdict = LATER
  elseif score == token then
    call('ZADD', NEXT, digits(later), member)
    verdict = OK
  else
    verdict = score == later and AS_WISHED or STALE
  end
  verdicts[#verdicts + 1] = verdict
end
return { digits(now), verdicts }
