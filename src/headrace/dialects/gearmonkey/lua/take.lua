-- Hand out jobs. A group is {label, functions in order}: in it due scheduled jobs come first, then all high ones, then all
-- normal ones, then all low ones; within a level function by function, and first in, first out.

-- The next few jobs of a group; it remembers which of its lines are empty, as nothing arrives meanwhile.
local function next_of(group, most)
  while group.line <= 4 * #group.functions do
    local level = LEVELS[math.floor((group.line - 1) / #group.functions) + 1]
    local fn = group.functions[(group.line - 1) % #group.functions + 1]
    local key = queue_key(fn, level)
    local numbers
    if level == 'scheduled' then
      numbers = call('ZRANGEBYSCORE', key, 0, math.floor(now / 1000), 'LIMIT', 0, most)
      if numbers[1] then
        call('ZREM', key, unpack(numbers))
      end
    else
      numbers = call('RPOP', key, most) or {}
    end
    if numbers[1] then
      return fn, level, numbers
    end
    group.line = group.line + 1
  end
end

-- `wanted`: {labels, slots, spare, round robin}. Answers with hand-outs, those of one line together: {function, label, level,
-- 1 if they are spare, numbers, inputs, hand-outs with records}; and with numbers that were dropped.
local function take(session, request, wanted)
  local groups, runs, dropped = {}, {}, {}
  for i, label in ipairs(wanted[1]) do
    groups[i] = { label = label, functions = label == 'default' and session.tasks or { label }, line = 1 }
  end
  local slots, most, round_robin = wanted[2], wanted[2] + wanted[3], wanted[4] and #wanted[1] > 1
  local refs, count = tonumber(call('GET', REFS) or 0), 0
  local held, until_when = {}, digits(steady + session.timeout)
  local empty, at = 0, 1
  while count < most and empty < #groups do
    local group = groups[at]
    -- Those that are spare are a run of their own.
    local room = count < slots and slots - count or most - count
    local fn, level, numbers = next_of(group, round_robin and 1 or math.min(room, AT_ONCE))
    if fn then
      empty = 0
      local spare, key, channel = count >= slots, 'job:' .. fn .. ':', 'channel:' .. fn
      local prefix, member = held_prefix(level, request, spare, group.label), level .. ':'
      local blobs = call('HMGET', jobs_key(fn), unpack(numbers))
      local given, inputs, hand_outs, leases, n = {}, {}, {}, {}, 0
      for i = 1, #numbers do
        local number = numbers[i]
        local job = key .. number
        local known = call('HMGET', job, 'status', 'input')
        local status = known[1]
        if status == 'idle' or status == 'busy' then
          -- "Publish a 'start' event", "Update the job status", and the lease beside it.
          call('PUBLISH', channel, 'start:' .. number)
          call('HSET', job, 'status', 'busy')
          n, count = n + 1, count + 1
          local blob = blobs[i] or NEW
          local packed = prefix .. struct.pack(HAND_OUT, now, struct.unpack('>I4', blob) + 1, refs + count) .. blob
          given[n], inputs[n], hand_outs[n] = number, known[2] or '', packed
          held[2 * count - 1], held[2 * count] = number .. ':' .. fn, packed
          leases[2 * n - 1], leases[2 * n] = until_when, member .. number
        else -- deleted, expired, or finished by a worker that was slow
          dropped[#dropped + 1] = fn .. ':' .. number
        end
      end
      if n > 0 then
        in_pieces('ZADD', leases_key(fn), leases)
        runs[#runs + 1] = { fn, group.label, level, spare and 1 or 0, given, inputs, hand_outs }
      end
      if round_robin then
        at = at % #groups + 1
      end
    else
      empty = empty + 1
      at = at % #groups + 1
    end
  end
  if count > 0 then
    call('INCRBY', REFS, count)
    in_pieces('HSET', held_key(session.id), held)
  end
  return runs, dropped
end
