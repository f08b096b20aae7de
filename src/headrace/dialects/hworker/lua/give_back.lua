-- give back: jobs of workers that are gone to the right end of their lists, so that they run next.
--
-- ARGV[2...]  threes: number of the queue, raw job, the value that its progress record had when it was judged:
--             a record that was refreshed since is left alone
-- Answers     a byte per job: 1 given back, 0 gone or refreshed meanwhile
-- Fails       CORRUPT
--@include prelude

check_types()
local answer = {}
for i = 2, #ARGV, 3 do
  local queue, raw = tonumber(ARGV[i]), ARGV[i + 1]
  local removed = leave_progress(queue, raw, ARGV[i + 2])
  -- The phantom is no job: it is deleted and never pushed.
  if removed and raw ~= PHANTOM then
    call('RPUSH', key(queue, JOBS), raw)
  end
  answer[#answer + 1] = removed and '1' or '0'
end
return table.concat(answer)
