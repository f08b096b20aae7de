-- exchange: settle what has run, then claim what is due, in one step.
--
-- An entry is never taken out to be run: its score becomes the end of a lease, and that number is the claim's token. Should the
-- listener die, the entry becomes due again, for any listener. Tokens are never whole seconds, as run times are: one can't be
-- taken for the other. Nor does a process get the same one twice, even for what it gives back and claims within a millisecond.
--
-- ARGV[2]  lease, milliseconds
-- ARGV[3]  how many to claim
-- ARGV[4]  how many due entries to pass over (where an earlier call ended)
-- ARGV[5]  likenesses of the jobs that can be run here, a line each
-- ARGV[6]  ids to be passed over, a line each
-- ARGV[7]  the last token that this process was given
-- ARGV[8…] per outcome: member, id, token, new score (empty: remove the job), 1 if an absent entry is to be added
-- Answers  {now, next due or '', verdicts, claimed: {member, id, score before, payload} each, token, passed: {id, job} each, resume or -1}
--@include prelude scan

check_types()

-- OK, or STALE (somebody else's), LATER (a published listener has it out for an instant), AS_WISHED (it has the new score already),
-- GONE (there is no such job any more).
local function settle(member, id, token, target, insist)
  local score = tonumber(call('ZSCORE', NEXT, member))
  if score and score ~= token then
    return target ~= '' and score == tonumber(target) and AS_WISHED or STALE
  end
  if call('HEXISTS', JOBS, id) == 0 then
    call('ZREM', NEXT, member)
    return GONE
  end
  if target == '' then
    call('ZREM', NEXT, member)
    call('HDEL', JOBS, id)
    return OK
  end
  if not score and insist == '' then
    return LATER
  end
  call('ZADD', NEXT, target, member)
  if tonumber(target) <= now then
    wake()
  end
  return OK
end

local verdicts = {}
for i = 8, #ARGV, 5 do
  verdicts[#verdicts + 1] = settle(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3], ARGV[i + 4])
end

local found, strays, passed, resume = scan(set_of(ARGV[5]), set_of(ARGV[6]), tonumber(ARGV[3]), tonumber(ARGV[4]))
local token = math.max(now + tonumber(ARGV[2]), tonumber(ARGV[7]) + 1)
if token % 1000 == 0 then
  token = token + 1
end
for _, entry in ipairs(found) do
  call('ZADD', NEXT, digits(token), entry[1])
end
for _, member in ipairs(strays) do
  call('ZREM', NEXT, member)
end
-- What was claimed or removed is no longer due: the others have moved up.
resume = resume and resume - #found - #strays or -1
return { digits(now), next_due() or '', verdicts, found, digits(token), passed, resume }
