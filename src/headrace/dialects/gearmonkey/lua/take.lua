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

-- A job becomes ours: "Publish a 'start' event", "Update the job status", and the lease beside it.
local function hand_out(session, request, ref, fn, level, number, blob, label, spare)
  local key = job_key(fn, number)
  local known = call('HMGET', key, 'status', 'input')
  if known[1] ~= 'idle' and known[1] ~= 'busy' then
    return nil -- deleted, expired, or finished by a worker that was slow: its number is dropped
  end
  call('PUBLISH', 'channel:' .. fn, 'start:' .. number)
  call('HSET', key, 'status', 'busy')
  local token, attempts, crashes, created, due, _, _, finished, result, s, w, at = struct.unpack(HEAD, blob)
  local taken = head(token + 1, attempts, crashes, created, due, ref, now, finished, result, session.id, session.name)
    .. blob:sub(at + s + w)
  local held = { fn = fn, number = number, level = level, request = request, spare = spare, label = label, blob = taken }
  return { fn, number, label, known[2] or '', taken, level, spare and 1 or 0 }, { place_of(fn, number), held }
end

-- `wanted`: {labels, slots, spare, round robin}.
local function take(session, request, wanted)
  local groups, leases, dropped, taken = {}, {}, {}, {}
  for i, label in ipairs(wanted[1]) do
    groups[i] = { label = label, functions = label == 'default' and session.tasks or { label }, line = 1 }
  end
  local slots, most, round_robin = wanted[2], wanted[2] + wanted[3], wanted[4] and #wanted[1] > 1
  local refs = tonumber(call('GET', REFS) or 0)
  local empty, at = 0, 1
  while #leases < most and empty < #groups do
    local group = groups[at]
    local fn, level, numbers = next_of(group, round_robin and 1 or math.min(most - #leases, 1000))
    if fn then
      empty = 0
      local keys = {}
      for i, number in ipairs(numbers) do
        keys[i] = record_key(fn, number)
      end
      local blobs = call('MGET', unpack(keys))
      for i, number in ipairs(numbers) do
        local ref = refs + #leases + 1
        local lease, held = hand_out(session, request, ref, fn, level, number, blobs[i] or NEW, group.label, #leases >= slots)
        if lease then
          leases[#leases + 1], taken[#taken + 1] = lease, held
        else
          dropped[#dropped + 1] = fn .. ':' .. number
        end
      end
      if round_robin then
        at = at % #groups + 1
      end
    else
      empty = empty + 1
      at = at % #groups + 1
    end
  end
  if leases[1] then
    call('INCRBY', REFS, #leases)
    hold(session.id, taken, steady + session.timeout)
  end
  return leases, dropped
end
