-- put: create jobs, all or nothing, with the protocol's commands in the protocol's order.
--
-- ARGV[2]  msgpack: a list of jobs, each {function, input, level, due (ms, or -1), delay (ms, or -1), roll call,
--          id or false, the rest of its record}. Jobs without an id of ours get no record.
-- Answers  {job number as text, 1 if it was there already} per job
--@include prelude record

local jobs = cmsgpack.unpack(ARGV[2])
local checked = {}
for _, job in ipairs(jobs) do
  local fn = job[1]
  if job[6] and not checked['count:' .. fn] then
    -- "Count registered workers. Raise an error when the result does not >= 1"
    local count = tonumber(call('GET', 'count:' .. fn) or '')
    if not count or count < 1 or count % 1 ~= 0 then
      fail('NOWORKERS', 'no worker is registered for ' .. fn)
    end
    checked['count:' .. fn] = true
  end
  if not checked[fn] then
    check_function(fn)
    check_type('uid:' .. fn, 'string')
    if not (call('GET', 'uid:' .. fn) or '0'):match('^%d+$') then
      fail('CORRUPT', 'uid:' .. fn .. ' is not a number')
    end
    checked[fn] = true
  end
end

-- Our own jobs get a place in the order of arrival; what we know beside the protocol is written at the end, by function.
local ours = 0
for _, job in ipairs(jobs) do
  ours = ours + (job[7] and 1 or 0)
end
local arrival = ours > 0 and call('INCRBY', ARRIVALS, ours) - ours or 0
local records, answers = {}, {}
for i, job in ipairs(jobs) do
  local fn, input, level, due, delay, id = job[1], job[2], job[3], job[4], job[5], job[7]
  local known = id and call('GET', id_key(id))
  if known then
    answers[i] = { known:match(':(%d+)$'), 1 }
  else
    local number = digits(call('INCR', 'uid:' .. fn))
    if due < 0 then
      due = delay < 0 and now or now + delay
    end
    -- Should uid:FN have been lost, an old job's output and expiry would show through.
    call('DEL', job_key(fn, number), 'lock:' .. fn .. ':' .. number)
    forget_record(fn, number)
    call('HSET', job_key(fn, number), 'status', 'idle', 'input', input)
    call('PUBLISH', 'channel:' .. fn, 'create:' .. number)
    if level == 'scheduled' then
      call('ZADD', queue_key(fn, level), math.ceil(due / 1000), number)
    else
      due = line_up(fn, number, level, due)
    end
    if id then
      call('SET', id_key(id), fn .. ':' .. number)
      arrival = arrival + 1
      local known_by_us = records[fn] or {}
      records[fn] = known_by_us
      known_by_us[#known_by_us + 1] = number
      known_by_us[#known_by_us + 1] = head(0, 0, 0, now, due, arrival, 0, 0, 0, '', '') .. job[8] .. NEVER
    end
    answers[i] = { number, 0 }
  end
end
for fn, known_by_us in pairs(records) do
  in_pieces('HSET', jobs_key(fn), known_by_us)
end
return answers
