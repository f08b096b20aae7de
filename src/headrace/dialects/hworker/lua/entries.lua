-- entries: what is at one of the keys of a queue, a list in pieces.
--
-- ARGV[2]     kind of key: 1 jobs, 2 progress, 3 broken, 4 failed
-- ARGV[3]     where to begin in a list
-- ARGV[4]     how many entries to look at
-- ARGV[5...]  if given: only entries that contain one of these, or an escape that may hide it
-- Answers     {time in microseconds, how many were looked at, entries...}; of a hash all, as field, value, ...
-- Fails       CORRUPT
--@include prelude

check_types()
local kind = tonumber(ARGV[2])
if TYPES[kind] == 'hash' then
  local found = call('HGETALL', key(1, kind))
  table.insert(found, 1, #found / 2)
  table.insert(found, 1, instant())
  return found
end

local function wanted(raw)
  if #ARGV < 5 or string.find(raw, '\\', 1, true) then
    return true
  end
  for i = 5, #ARGV do
    if string.find(raw, ARGV[i], 1, true) then
      return true
    end
  end
  return false
end

local first = tonumber(ARGV[3])
local looked_at = call('LRANGE', key(1, kind), first, first + tonumber(ARGV[4]) - 1)
local answer = { instant(), #looked_at }
for _, raw in ipairs(looked_at) do
  if wanted(raw) then
    answer[#answer + 1] = raw
  end
end
return answer
