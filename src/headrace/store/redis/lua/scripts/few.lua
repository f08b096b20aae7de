-- few: jobs of some states, or that sessions hold, in no order of use, if there are not too many of them to look at.
--
-- ARGV[2]  empty, or the session that holds them: then all of these are looked at
-- ARGV[3..7]  which ones: see find.lua
-- Answers  {1, arrival, id, task, ...}; {0} if there may be more than that
--@include current find

local AT_MOST, PLACES_AT_MOST = 2000, 500
local ids, too_many = {}, false

-- What is in a place, if there is room for it; without the first bytes of each.
local function gather(size, read, key, skip)
  local number = call(size, key)
  too_many = too_many or #ids + number > AT_MOST
  local found = not too_many and number > 0 and (read == 'SMEMBERS' and call(read, key) or call(read, key, 0, -1)) or {}
  for _, member in ipairs(found) do
    ids[#ids + 1] = member:sub(skip + 1)
  end
end

local function keys_in(index)
  local found = call('ZRANGE', index, 0, PLACES_AT_MOST)
  too_many = too_many or #found > PLACES_AT_MOST
  return too_many and {} or found
end

local places = {
  [SCHEDULED] = function()
    for _, queue in ipairs(ARGV[5] ~= '' and { ARGV[5]:sub(2) } or keys_in(DUE)) do
      gather('ZCARD', 'ZRANGE', PREFIX .. 'due:' .. queue, 6)
    end
  end,
  [READY] = function()
    for _, queue in ipairs(ARGV[5] ~= '' and { ARGV[5]:sub(2) } or keys_in(READY_QUEUES)) do
      gather('LLEN', 'LRANGE', PREFIX .. 'row:' .. queue, 12)
      gather('ZCARD', 'ZRANGE', PREFIX .. 'line:' .. queue, 12)
    end
  end,
  [RUNNING] = function()
    for _, session in ipairs(keys_in(SESSIONS)) do
      gather('SCARD', 'SMEMBERS', PREFIX .. 'held:' .. session, 0)
    end
  end,
  [BLOCKED] = function()
    gather('ZCARD', 'ZRANGE', PREFIX .. 'state:blocked', 0)
  end,
}
for state, key in pairs(ENDED) do
  places[state] = function()
    gather('ZCARD', 'ZRANGE', key, 0)
  end
end

if ARGV[2] ~= '' then
  ids = call('SMEMBERS', PREFIX .. 'held:' .. ARGV[2])
else
  for digit in ARGV[4]:gmatch('%d') do
    places[tonumber(digit)]()
  end
end
if too_many then
  return { 0 }
end
load_many(ids)
local answer = { 1 }
for _, id in ipairs(ids) do
  local job = find_job(id)
  if job then
    add_if_it_fits(answer, job, job.arrival)
  end
end
return answer
