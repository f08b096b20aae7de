-- When jobs failed, by group. {ns}:failing has for each group d first, d last, and for each of the last hours I hour (since 1970) and I
-- how many; {ns}:failing_last has the groups by their last failure. The arithmetic is that of headrace/store/failing.py.
--@include prelude

local failing = {
  key = PREFIX .. 'failing', last = PREFIX .. 'failing_last',
  times = {}, -- group -> when jobs have failed in this call
}
local HOUR, HOURS_KEPT = 3600000, 48

-- What is known of a group: the first time, the last, and how many by hour. What another program has written counts as nothing.
function failing.known(value)
  local first, last, hours = math.huge, 0, {}
  if value and #value >= 16 and #value % 8 == 0 then
    first, last = unpack_from('>dd', value)
  end
  if not (first >= 0 and first <= last and last <= LATEST) then
    return math.huge, 0, hours
  end
  for at = 17, #value, 8 do
    local hour, number = unpack_from('>II', value, at)
    hours[hour] = number
  end
  return first, last, hours
end

-- The groups as they will be: {fields to set, scores to set}. Reads only.
function failing.changes()
  local names, change = {}, { fields = {}, scores = {} }
  for group in pairs(failing.times) do
    names[#names + 1] = group
  end
  if not names[1] then
    return change
  end
  check_type(failing.key, 'hash')
  check_type(failing.last, 'zset')
  local before, oldest = read_many('HMGET', failing.key, names), math.floor(now / HOUR) - HOURS_KEPT
  for i, group in ipairs(names) do
    local first, last, hours = failing.known(before[i])
    for _, at in ipairs(failing.times[group]) do
      local hour = math.floor(at / HOUR)
      first, last, hours[hour] = math.min(first, at), math.max(last, at), (hours[hour] or 0) + 1
    end
    local parts = { pack('>dd', first, last) }
    for hour, number in pairs(hours) do
      parts[#parts + 1] = hour > oldest and pack('>II', hour, number) or ''
    end
    change.fields[2 * i - 1], change.fields[2 * i] = group, table.concat(parts)
    change.scores[2 * i - 1], change.scores[2 * i] = string.format('%.0f', last), group
  end
  return change
end

function failing.write(change)
  bulk('HSET', failing.key, change.fields)
  bulk('ZADD', failing.last, change.scores)
end
