-- walk: one bounded step through jobs in order of arrival, newest first.
--
-- ARGV[2]  the index: 'arrivals' (all jobs), 'tracked', 'tag:<tag>', 'schedule:<name>', 'group:<group>' or 'state:<state>'
-- ARGV[3..7]  which ones: see find.lua
-- ARGV[8]  how many are enough
-- Answers  {the number to go on before ('': that was all), arrival, id, task, ...}
--@include current find arrivals

local AT_ONCE, BLOCKS_AT_ONCE = 500, 50
local before, answer = tonumber(ARGV[3]), { '' }

-- `arrival`: the number it has in the index.
local function look_at(id, arrival)
  local record = raw[id]
  local state = record and record:byte(1)
  if not record or ARGV[4] ~= '' and state and state <= CANCELLED and not ARGV[4]:find(state, 1, true) then
    return
  end
  local job = find_job(id, nil, arrival)
  add_if_it_fits(answer, job, arrival or job.arrival)
end

if ARGV[2] ~= 'arrivals' then
  local found = call('ZREVRANGEBYSCORE', PREFIX .. ARGV[2], '(' .. ARGV[3], '-inf', 'WITHSCORES', 'LIMIT', 0, AT_ONCE)
  local ids = {}
  for i = 1, #found, 2 do
    ids[#ids + 1] = found[i]
  end
  load_many(ids)
  answer[1] = #ids == AT_ONCE and found[#found] or ''
  for i, id in ipairs(ids) do
    look_at(id, tonumber(found[2 * i]))
  end
  return answer
end

-- The blocks of arrivals, one after the other, from their ends, as long as that is not too much. Entries of jobs that are gone, or
-- that came again under the same id and stand in another place, are skipped.
local PIECE = 64
local newest, enough, last = string.format('%.0f', math.floor((before - 1) / BLOCK)), tonumber(ARGV[8]), last_arrival()
local looked_at = 0
for i, block in ipairs(call('ZREVRANGEBYSCORE', ARRIVALS, newest, '-inf', 'LIMIT', 0, BLOCKS_AT_ONCE)) do
  local ids, first = ids_in(block_key(block)), block * BLOCK
  -- Where no holes have been taken out the place of an id tells its number.
  local from = math.max(first, 1)
  local is_whole = #ids == math.min(first + BLOCK, last + 1) - from
  local newest_place = is_whole and math.min(#ids, before - from) or #ids
  for upto = newest_place, 1, -PIECE do
    local piece = {}
    for j = upto, math.max(upto - PIECE + 1, 1), -1 do
      piece[#piece + 1] = ids[j]
    end
    load_many(piece)
    for j, id in ipairs(piece) do
      local record = raw[id]
      local arrival = record and #record >= HEAD_SIZE and record:byte(1) <= CANCELLED and unpack_from('>I6', record, ARRIVAL_AT)
      arrival = arrival and arrival <= last and arrival -- or it is damaged
      if record and (not arrival or arrival >= first and arrival < first + BLOCK) then
        look_at(id, arrival or is_whole and from + upto - j or nil)
      end
      raw[id] = false -- once
    end
    if #answer > 3 * enough + 1 then
      answer[1] = answer[#answer - 2] -- the arrival of the last one
      return answer
    end
  end
  looked_at = looked_at + #ids
  if looked_at >= 2 * AT_ONCE or i == BLOCKS_AT_ONCE then
    answer[1] = string.format('%.0f', first)
    break
  end
end
return answer
