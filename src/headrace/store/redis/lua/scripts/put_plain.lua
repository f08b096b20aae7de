-- put, for a batch that has nothing special: no unique keys, no delays, no large bodies, no worker required.
--
-- ARGV[2]  the batch: for each job H id, H queue, its record (see job.lua) without due, created and arrival: 13 bytes that come before
--          them, i priority, I what comes behind them
-- Answers  now
--@include arrivals

local ids, queues, fronts, priorities, rests = {}, {}, {}, {}, {}
local fields, lines, rows, numbers, in_order = { 'format', 'jobs' }, {}, {}, {}, {}
local listeners, batch, at, n, urgent = { PREFIX .. 'events', PREFIX .. 'patterns' }, ARGV[2], 1, 0, {}
while at <= #batch do
  local queue
  n = n + 1
  ids[n], queue, fronts[n], priorities[n], rests[n], at = unpack_from('>Hc0Hc0c13iIc0', batch, at)
  queues[n] = queue
  if not lines[queue] then
    lines[queue], rows[queue], numbers[queue] = {}, {}, 0
    fields[#fields + 1] = READY .. queue
    listeners[#listeners + 1] = PREFIX .. 'hungry:' .. queue
    -- Into the row only if that stays in order: the clock may have been set back.
    local last = call('LINDEX', PREFIX .. 'row:' .. queue, -1)
    in_order[queue] = not last or #last >= 6 and unpack_from('>I6', last) <= now
  end
  if priorities[n] > 0 and priorities[n] > (urgent[queue] or 0) then
    listeners[#listeners + 1] = not urgent[queue] and PREFIX .. 'urgent:' .. queue or nil
    urgent[queue] = priorities[n]
  end
end
local meta = read_many('HMGET', META, fields)
check_format(meta[1])
local arrival = tonumber(meta[2] or 0) or fail('CORRUPT', META .. ' has no number in field jobs')
local there = read_many('HMGET', JOB, ids)

local due = pack('>I6', now)
local times, first, fresh, records, is_new = due .. due, arrival + 1, 0, {}, {}
for i = 1, n do
  local id = ids[i]
  if not there[i] and is_new[id] == nil then
    arrival, fresh, is_new[id] = arrival + 1, fresh + 1, true
    local number, queue = pack('>I6', arrival), queues[i]
    ids[fresh], rests[fresh] = id, rests[i]
    records[2 * fresh - 1] = id
    records[2 * fresh] = fronts[i] .. times .. number .. rests[fresh]
    if priorities[i] == 0 and in_order[queue] then
      local row = rows[queue]
      row[#row + 1] = due .. number .. id
    else
      local line = lines[queue]
      line[#line + 1] = -priorities[i]
      line[#line + 1] = due .. number .. id
    end
    numbers[queue] = numbers[queue] + 1
  end
end
for queue, line in pairs(lines) do
  if line[1] then
    check_type(PREFIX .. 'line:' .. queue, 'zset')
  end
end
local stamp = string.format('%.0f', now)
if fresh == 0 then
  return stamp
end

local values, filled = { 'format', FORMAT, 'jobs', string.format('%.0f', arrival) }, {}
for i = 3, #fields do
  local queue, before = fields[i]:sub(2), tonumber(meta[i] or 0) or 0
  if before + numbers[queue] > 0 then
    values[#values + 1] = fields[i]
    values[#values + 1] = string.format('%.0f', before + numbers[queue])
    if before <= 0 then
      filled[#filled + 1] = 0
      filled[#filled + 1] = queue
    end
  end
end
-- One EXISTS shows that there are no subscribers and that no session sleeps for any of this. Mostly so: then what wakes and publishes
-- is not even made, as to make it costs as much as a command or two.
local tell
if call('EXISTS', unpack(listeners)) > 0 then
--@include wait
  if call('EXISTS', EVENTS, PATTERNS) == 0 then
    absent[EVENTS], slept_on = true, {}
  end
  local hungry = to_be_woken(numbers)
  local rung = waking.rings_due(urgent, numbers, hungry)
  for i = 1, has_subscribers() and fresh or 0 do
    happened_to(ids[i], rests[i], 11, 'created', '', '')
  end
  function tell()
    for name, number in pairs(hungry) do
      wake(name, number)
    end
    for queue, priority in pairs(rung) do
      waking.ring(queue, priority)
    end
    publish_events()
  end
end
local blocks = arriving(first, ids, fresh)
if filled[1] then
  check_type(READY_QUEUES, 'zset')
end

-- From here on only writes. The first one needs memory: a full server refuses it, and with it all the others.
arrive_all(blocks)
bulk('ZADD', READY_QUEUES, filled)
bulk('HSET', META, values)
bulk('HSET', JOB, records)
for queue, line in pairs(lines) do
  bulk('ZADD', PREFIX .. 'line:' .. queue, line)
  bulk('RPUSH', PREFIX .. 'row:' .. queue, rows[queue])
end
if tell then
  tell()
end
return stamp
