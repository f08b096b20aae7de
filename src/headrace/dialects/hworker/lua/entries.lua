-- entries: what is at one of the keys of a queue, a list in pieces.
--
-- ARGV[2]     kind of key: 1 jobs, 2 progress, 3 broken, 4 failed
-- ARGV[3]     of a list: how many entries at its right end are still to be looked at; -1: all
-- ARGV[4]     how many of these to look at, from the left
-- ARGV[5...]  if given: only entries that contain one of these, or an escape that may hide it
-- Answers     {time in microseconds, how many are left after these, entries...}; of a hash all, as field, value, ...
-- Fails       CORRUPT
--@include prelude

check_types()
local kind = tonumber(ARGV[2])
if TYPES[kind] == 'hash' then
  local found = call('HGETALL', key(1, kind))
  table.insert(found, 1, 0)
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

-- Counted from the right, where nothing is pushed by producers: what came or was removed meanwhile hides none.
local length = call('LLEN', key(1, kind))
local left = tonumber(ARGV[3])
if left < 0 or left > length then
  left = length
end
local looked_at = call('LRANGE', key(1, kind), length - left, length - left + tonumber(ARGV[4]) - 1)
local answer = { instant(), left - #looked_at }
for _, raw in ipairs(looked_at) do
  if wanted(raw) then
    answer[#answer + 1] = raw
  end
end
return answer
