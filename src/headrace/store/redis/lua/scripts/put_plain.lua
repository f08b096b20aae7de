-- put, for a batch that has nothing special: no unique keys, no delays, no large bodies, no worker required.
--
-- ARGV[2]  the batch: for each job H id, H queue, i priority, I its record without due, created and arrival (see job.lua)
-- Answers  now
--@include arrivals wait

local ids, queues, priorities, templates = {}, {}, {}, {}
local batch, at, n = ARGV[2], 1, 0
while at <= #batch do
  n = n + 1
  ids[n], queues[n], priorities[n], templates[n], at = unpack_from('>Hc0Hc0iIc0', batch, at)
end

local due = pack('>I6', now)
local fields = { 'format', 'jobs' }
local lines, rows, numbers, in_order = {}, {}, {}, {}
for i = 1, n do
  local queue = queues[i]
  if not lines[queue] then
    lines[queue], rows[queue], numbers[queue] = {}, {}, 0
    fields[#fields + 1] = READY .. queue
    -- Into the row only if that stays in order: the clock may have been set back.
    local last = call('LINDEX', PREFIX .. 'row:' .. queue, -1)
    in_order[queue] = not last or #last >= 6 and unpack_from('>I6', last) <= now
  end
end
local meta = read_many('HMGET', META, fields)
check_format(meta[1])
local arrival = tonumber(meta[2] or 0) or fail('CORRUPT', META .. ' has no number in field jobs')
local there = read_many('HMGET', JOB, ids)

-- One EXISTS shows that there are no subscribers, and that no session sleeps on a pattern.
if call('EXISTS', EVENTS, PATTERNS) == 0 then
  absent[EVENTS], slept_on = true, {}
end

local records, fresh, times, first = {}, {}, due .. due, arrival + 1
for i = 1, n do
  local id = ids[i]
  if not there[i] and not records[id] then
    arrival = arrival + 1
    local number = pack('>I6', arrival)
    local template, queue = templates[i], queues[i]
    records[#records + 1] = id
    records[#records + 1] = template:sub(1, 13) .. times .. number .. template:sub(32)
    records[id] = true
    fresh[#fresh + 1] = id
    if priorities[i] == 0 and in_order[queue] then
      local row = rows[queue]
      row[#row + 1] = due .. number .. id
    else
      local line = lines[queue]
      line[#line + 1] = -priorities[i]
      line[#line + 1] = due .. number .. id
    end
    numbers[queue] = numbers[queue] + 1
    if has_subscribers() then
      happened_to(id, template, 42, 'created', '', '')
    end
  end
end
for queue, line in pairs(lines) do
  if line[1] then
    check_type(PREFIX .. 'line:' .. queue, 'zset')
  end
end
local stamp = string.format('%.0f', now)
if not records[1] then
  return stamp
end

local values, filled = { 'format', '2', 'jobs', string.format('%.0f', arrival) }, {}
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
local hungry = to_be_woken(numbers)
local blocks = arriving(first, fresh)
if filled[1] then
  check_type(READY_QUEUES, 'zset')
end

-- From here on only writes. The first one needs memory: a full server refuses it, and with it all the others.
arrive_all(blocks, fresh)
bulk('ZADD', READY_QUEUES, filled)
bulk('HSET', META, values)
bulk('HSET', JOB, records)
for queue, line in pairs(lines) do
  bulk('ZADD', PREFIX .. 'line:' .. queue, line)
  bulk('RPUSH', PREFIX .. 'row:' .. queue, rows[queue])
end
for name, number in pairs(hungry) do
  wake(name, number)
end
publish_events()
return stamp
