-- exchange: settle what has ended, then take what there is room for; both or neither.
--
-- ARGV[2]     how many failed jobs are kept; 0: none
-- ARGV[3]     number of outcomes, each four arguments from ARGV[6] on:
--             number of the queue, what (see SETTLE), raw job, the value that its progress record must have
-- ARGV[4]     how many jobs to take
-- ARGV[5]     1: one from each queue in turn; 0: as many as the first one has, then the next
-- ARGV[...]   numbers of the queues to take from, in order
-- Answers     {time in microseconds, the value written for what was taken, a byte per outcome (1 settled, 0 not ours),
--              then for each job taken: number of the queue, raw job}
-- Fails       CORRUPT
--@include prelude

local kept = tonumber(ARGV[2])
local now = literal()

local SETTLE = {
  -- success: the record is deleted, and that is all
  s = function() end,
  -- retry: to the back of the line
  r = function(queue, raw)
    call('LPUSH', key(queue, JOBS), raw)
  end,
  -- failure: to the bounded list of failures
  f = function(queue, raw)
    if kept > 0 then
      call('LPUSH', key(queue, FAILED), raw)
      call('LTRIM', key(queue, FAILED), 0, kept - 1)
    end
  end,
  -- broken: nobody can read it
  b = function(queue, raw)
    call('HSET', key(queue, BROKEN), raw, now)
  end,
  -- given back: to the front of the line, so that it runs next; the phantom is no job, and never pushed
  g = function(queue, raw)
    if raw ~= PHANTOM then
      call('RPUSH', key(queue, JOBS), raw)
    end
  end,
}

check_types()

local verdicts = {}
local at = 6
for i = 1, tonumber(ARGV[3]) do
  local queue, raw = tonumber(ARGV[at]), ARGV[at + 2]
  if leave_progress(queue, raw, ARGV[at + 3]) then
    SETTLE[ARGV[at + 1]](queue, raw)
    verdicts[i] = '1'
  else
    verdicts[i] = '0'
  end
  at = at + 4
end

local answer = { instant(), now, table.concat(verdicts) }
local wanted = tonumber(ARGV[4])

-- The phantom that released workers leave behind is dropped on the way.
local function take(queue, count)
  local taken = 0
  while taken < count do
    local popped = call('RPOP', key(queue, JOBS), count - taken)
    if not popped then
      break
    end
    for _, raw in ipairs(popped) do
      if raw ~= PHANTOM then
        call('HSET', key(queue, PROGRESS), raw, now)
        answer[#answer + 1] = queue
        answer[#answer + 1] = raw
        taken = taken + 1
      end
    end
  end
  return taken
end

if ARGV[5] == '0' then
  for i = at, #ARGV do
    wanted = wanted - take(tonumber(ARGV[i]), wanted)
  end
else
  local found = true
  while found and wanted > 0 do
    found = false
    for i = at, #ARGV do
      if wanted > 0 and take(tonumber(ARGV[i]), 1) == 1 then
        found = true
        wanted = wanted - 1
      end
    end
  end
end
return answer
