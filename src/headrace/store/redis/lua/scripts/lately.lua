-- lately: one bounded step through the jobs that came last, or that ended last: how many each queue has.
--
-- ARGV[2]  'arrivals', 'done', 'failed' or 'cancelled'
-- ARGV[3]  '', or the moment to count back from, as the first step has answered it
-- ARGV[4]  where to go on ('': at the last job)
-- ARGV[5]  how many jobs to look at, at most
-- Answers  {the moment, where to go on ('': that was all), queue, how many, the moment of the first, how many of the last minute,
--          how many of the last hour, ...}
--@include job arrivals

check_format(call('HGET', META, 'format'))
local AT_ONCE, BLOCKS_AT_ONCE, MINUTE, HOUR = 1000, 50, 60000, 3600000
local till, most, met, tallies = tonumber(ARGV[3]) or now, tonumber(ARGV[5]), 0, {}

local function queue_of(record)
  local at = HEAD_SIZE + (band(unpack_from('>xH', record), RUN) ~= 0 and RUN_SIZE or 0) + 1
  local high, low = record:byte(at, at + 1)
  return low and record:sub(at + 2, at + 1 + 256 * high + low)
end

-- A record that cannot be read counts in no queue.
local function tally(record, moment)
  local queue = queue_of(record)
  if queue then
    local sums = tallies[queue] or { 0, moment, 0, 0 }
    tallies[queue], met = sums, met + 1
    sums[1], sums[2] = sums[1] + 1, math.min(sums[2], moment)
    sums[3] = sums[3] + (moment >= till - MINUTE and 1 or 0)
    sums[4] = sums[4] + (moment >= till - HOUR and 1 or 0)
  end
end

local further = ''
if ARGV[2] == 'arrivals' then
  local from, looked_at = ARGV[4] ~= '' and ARGV[4] or '+inf', 0
  for i, block in ipairs(call('ZREVRANGEBYSCORE', ARRIVALS, from, '-inf', 'LIMIT', 0, BLOCKS_AT_ONCE)) do
    local ids, first = ids_in(block_key(block)), block * BLOCK
    load_many(ids)
    for j = #ids, 1, -1 do
      local record = raw[ids[j]]
      local arrival = record and #record >= HEAD_SIZE and unpack_from('>I6', record, ARRIVAL_AT)
      if met < most and arrival and arrival >= first and arrival < first + BLOCK then -- else it stands in another place
        tally(record, unpack_from('>I6', record, CREATED_AT))
      end
      raw[ids[j]] = false -- once
    end
    looked_at = looked_at + #ids
    if met >= most then
      break
    elseif looked_at >= AT_ONCE or i == BLOCKS_AT_ONCE then
      further = string.format('%.0f', block - 1)
      break
    end
  end
else
  local skipped, number = tonumber(ARGV[4]) or 0, math.min(most, AT_ONCE)
  local oldest = string.format('%.0f', till - HOUR)
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
for queue, sums in pairs(tallies) do
  answer[#answer + 1] = queue
  for _, number in ipairs(sums) do
    answer[#answer + 1] = string.format('%.0f', number)
  end
end
return answer
