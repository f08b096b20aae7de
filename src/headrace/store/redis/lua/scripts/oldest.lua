-- oldest: when the oldest ready job of each queue was due; of very many queues one bounded step of it.
--
-- ARGV[2]  where to go on ('0' to begin)
-- Answers  {now, where to go on ('': that was all), queue, when its oldest ready job was due, ...}
--@include current job plain

local AT_ONCE, STALE_AT_MOST, PIECE = 1000, 5000, 50
local begin, skipped, oldest = tonumber(ARGV[2]), 0, {}

local function add(queue, due)
  oldest[queue] = math.min(due, oldest[queue] or due)
end

-- A row is in the order of due times. Behind too many entries of jobs that are gone the next one counts, whatever became of its job:
-- the oldest is not older.
local function first_of_row(queue)
  local key, read, asked = PREFIX .. 'row:' .. queue, 0, 1
  while true do
    local members, ids = call('LRANGE', key, read, read + asked - 1), {}
    for i, member in ipairs(members) do
      ids[i] = member:sub(13)
    end
    load_many(ids)
    for i, member in ipairs(members) do
      if #member > 12 and (stands(member, raw[ids[i]]) or skipped >= STALE_AT_MOST) then
        return (unpack_from('>I6', member))
      end
      skipped = skipped + 1
    end
    if #members < asked then
      return nil
    end
    read, asked = read + asked, PIECE
  end
end

-- A line is in the order of priorities, and within each in that of due times: the first of each, from the highest priorities on, and if
-- there are more than LEVELS, from the lowest on.
local function firsts_of_line(queue)
  local key, number, lowest = PREFIX .. 'line:' .. queue, 0, '-inf'
  while lowest and number < LEVELS do
    local found = call('ZRANGEBYSCORE', key, lowest, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    lowest, number = found[2] and '(' .. found[2], number + 1
    if found[1] and #found[1] > 12 then
      add(queue, (unpack_from('>I6', found[1])))
    end
  end
  local highest = lowest and '+inf'
  for _ = 1, lowest and LEVELS or 0 do
    local last = call('ZREVRANGEBYSCORE', key, highest, lowest, 'WITHSCORES', 'LIMIT', 0, 1)
    if not last[1] then
      break
    end
    local found = call('ZRANGEBYSCORE', key, last[2], last[2], 'LIMIT', 0, 1)
    highest = '(' .. last[2]
    if found[1] and #found[1] > 12 then
      add(queue, (unpack_from('>I6', found[1])))
    end
  end
end

local ready = call('ZRANGE', READY_QUEUES, begin, begin + AT_ONCE - 1)
for _, queue in ipairs(ready) do
  local due = first_of_row(queue)
  if due then
    add(queue, due)
  end
  firsts_of_line(queue)
end
-- What has fallen due is as good as ready: it waits for a take that puts it in line.
local late = call('ZRANGEBYSCORE', DUE, '-inf', now, 'WITHSCORES', 'LIMIT', begin, AT_ONCE)
for i = 1, #late, 2 do
  add(late[i], tonumber(late[i + 1]))
end

local more = #ready == AT_ONCE or #late == 2 * AT_ONCE
local answer = { string.format('%.0f', now), more and string.format('%.0f', begin + AT_ONCE) or '' }
for queue, due in pairs(oldest) do
  answer[#answer + 1] = queue
  answer[#answer + 1] = string.format('%.0f', due)
end
return answer
