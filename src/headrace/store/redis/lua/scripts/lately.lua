-- lately: one bounded step through the jobs that came last, through those that ended last, or through what is known of those that are
-- gone: how many of the last minute each queue has, by slots of time.
--
-- ARGV[2]  'arrivals', 'done', 'failed', 'cancelled' or 'gone'
-- ARGV[3]  '', or the moment to count back from, as the first step has answered it
-- ARGV[4]  where to go on ('': at the beginning)
-- ARGV[5]  how many jobs to count, at most
-- Answers  {the moment, where to go on ('': that was all), queue, slot, how many, ...}; of those that are gone 'c' (came) or 'e' (ended)
--          and the queue, and some may come twice
--@include current job arrivals

local AT_ONCE, BLOCKS_AT_ONCE = 1000, 50
local till, most, seen, met, tallies = tonumber(ARGV[3]) or now, tonumber(ARGV[5]), 0, 0, {}
local last = math.floor(till / SLOT)
local first = last - SLOTS

local function queue_of(record)
  local at = HEAD_SIZE + (band(unpack_from('>xH', record), RUN) ~= 0 and RUN_SIZE or 0) + 1
  local high, low = record:byte(at, at + 1)
  return low and record:sub(at + 2, at + 1 + 256 * high + low)
end

-- A record that cannot be read counts in no queue.
local function tally(record, moment)
  local queue, slot = queue_of(record), math.floor(moment / SLOT)
  seen = seen + 1
  if queue and slot >= first then
    local slots = tallies[queue] or {}
    tallies[queue], slots[slot] = slots, (slots[slot] or 0) + 1
    met = met + 1
  end
end

local further = ''
if ARGV[2] == 'arrivals' then
  local from, looked_at = ARGV[4] ~= '' and ARGV[4] or '+inf', 0
  for i, block in ipairs(call('ZREVRANGEBYSCORE', ARRIVALS, from, '-inf', 'LIMIT', 0, BLOCKS_AT_ONCE)) do
    local ids, begin = ids_in(block_key(block)), block * BLOCK
    load_many(ids)
    for j = #ids, 1, -1 do
      local record = raw[ids[j]]
      local arrival = record and #record >= HEAD_SIZE and unpack_from('>I6', record, ARRIVAL_AT)
      if met < most and arrival and arrival >= begin and arrival < begin + BLOCK then -- else it stands in another place
        tally(record, unpack_from('>I6', record, CREATED_AT))
      end
      raw[ids[j]] = false -- once
    end
    looked_at = looked_at + #ids
    if met >= most then
      break
    elseif looked_at >= AT_ONCE or i == BLOCKS_AT_ONCE then
      -- Behind a step of nothing but earlier ones there are only earlier ones.
      further = (met > 0 or seen == 0) and string.format('%.0f', block - 1) or ''
      break
    end
  end
elseif ARGV[2] == 'gone' then
  local slot, cursor = ARGV[4]:match('^(%d+) (%d+)$')
  slot, cursor = tonumber(slot or first), cursor or '0'
  while slot <= last and met < AT_ONCE do
    local key, fields = string.format('%sgone:%.0f', PREFIX, slot), nil
    check_type(key, 'hash')
    cursor, fields = unpack(call('HSCAN', key, cursor, 'COUNT', AT_ONCE))
    for i = 1, #fields, 2 do
      tallies[fields[i]] = tallies[fields[i]] or {}
      tallies[fields[i]][slot] = tonumber(fields[i + 1]) or 0
      met = met + 1
    end
    slot = cursor == '0' and slot + 1 or slot
  end
  further = slot <= last and string.format('%.0f %s', slot, cursor) or ''
else
  local skipped, number = tonumber(ARGV[4]) or 0, math.min(most, AT_ONCE)
  local oldest = string.format('%.0f', first * SLOT)
  local found = call('ZREVRANGEBYSCORE', PREFIX .. ARGV[2], '+inf', oldest, 'WITHSCORES', 'LIMIT', skipped, number)
  local ids = {}
  for i = 1, #found, 2 do
    ids[#ids + 1] = found[i]
  end
  load_many(ids)
  for i, id in ipairs(ids) do
    if raw[id] and #raw[id] >= HEAD_SIZE then
      tally(raw[id], tonumber(found[2 * i]))
    end
  end
  further = #ids == number and string.format('%.0f', skipped + number) or ''
end

local answer = { string.format('%.0f', till), further }
for queue, slots in pairs(tallies) do
  for slot, number in pairs(slots) do
    answer[#answer + 1] = queue
    answer[#answer + 1] = string.format('%.0f', slot)
    answer[#answer + 1] = string.format('%.0f', number)
  end
end
return answer
