-- Sessions: a worker as we know it, beside its registrations in count:FN.

local DAY = 86400

local function session_key(id)
  return SIDE .. id .. ':session'
end

local function expired(session)
  return steady >= session.seen + session.timeout
end

local function read_session(id)
  local flat = call('HMGET', session_key(id), 'closed', 'timeout', 'seen', 'number', 'functions', 'name', 'tasks', 'registered',
    'verdicts')
  if not flat[2] then
    return flat[1] and { id = id, closed = true } or nil
  end
  return {
    id = id, closed = flat[1], timeout = tonumber(flat[2]), seen = tonumber(flat[3]), number = tonumber(flat[4]),
    functions = cmsgpack.unpack(flat[5]), name = flat[6], tasks = cmsgpack.unpack(flat[7]), registered = flat[8] == '1',
    verdicts = flat[9] or '',
  }
end

-- The session, if it may still ask for anything. One that `settles` and takes nothing may be expired: as long as nobody has closed
-- it, its tokens are the last ones given out.
local function guard(id, settles)
  local session = read_session(id)
  if not session or session.closed then
    fail('GONE', 'session ' .. id .. ' is unknown or closed')
  end
  session.expired = expired(session) and call('HLEN', held_key(id)) > 0
  if session.expired and not settles then
    fail('GONE', 'session ' .. id .. ' has expired')
  end
  return session
end

-- The session of a numbered request, its number, and whether that was answered before.
local function numbered(id, text, settles)
  local session, number = guard(id, settles), tonumber(text)
  if number < session.number then
    fail('STALE', 'request ' .. text .. ' of session ' .. id .. ' comes after ' .. digits(session.number))
  end
  return session, number, number == session.number
end

-- What such a request was answered before.
local function answered(session)
  local answers = {}
  for i = 1, #session.verdicts do
    answers[i] = tonumber(session.verdicts:sub(i, i))
  end
  return answers
end

-- "On worker start: INCR count:{FN}", and a member that tells which of those counted are ours.
local function register(session)
  for _, fn in ipairs(session.functions) do
    if call('ZADD', SIDE .. fn .. ':workers', steady + session.timeout, session.id) == 1 then
      call('INCR', 'count:' .. fn)
    end
    call('SADD', FUNCTIONS, fn)
  end
  call('HSET', session_key(session.id), 'registered', '1')
end

-- "On worker exit: DECR count:{FN}": exactly once for each member, and never below 0.
local function unregister(session)
  for _, fn in ipairs(session.functions) do
    if call('ZREM', SIDE .. fn .. ':workers', session.id) == 1 and (tonumber(call('GET', 'count:' .. fn) or 0) or 0) > 0 then
      call('DECR', 'count:' .. fn)
    end
  end
  call('HSET', session_key(session.id), 'registered', '0')
end

local function mark_seen(session, number)
  if session.expired then
    call('HSET', session_key(session.id), 'number', digits(number))
    return
  end
  call('HSET', session_key(session.id), 'seen', digits(steady), 'number', digits(number or session.number))
  call('ZADD', SESSIONS, steady + session.timeout, session.id)
  if not session.registered then
    register(session) -- it was thought dead meanwhile
  end
end

-- A job whose worker has gone. `crashed`: the worker died inside of it.
local function take_back(fn, number, level, record, crashed)
  local status = call('HGET', job_key(fn, number), 'status')
  if status ~= 'idle' and status ~= 'busy' then
    return false -- finished by another, or deleted
  end
  local cancelling = record.cancelling
  record.token = record.token + 1
  record.crashes = record.crashes + (crashed and 1 or 0)
  record.cancelling, record.deferred = nil, nil
  if cancelling then
    record.state, record.finished = 'cancelled', now
    finish(fn, number, 'error', 'cancelled', build(record))
  elseif crashed and record.crashes >= (record.max or 3) then
    record.group, record.finished = 'crashed', now
    finish(fn, number, 'error', crashed_text(record.crashes), build(record))
  else
    write_record(fn, number, record)
    give_back(fn, number, level, math.floor(now / 1000))
  end
  return true
end

-- Everything that a session holds goes back. `guilty` names hand-outs to be charged with a crash, nil: all but spares.
local function return_held(session_id, guilty)
  local returned = {}
  local all = read_all_held(session_id)
  let_go(session_id, all)
  for _, pair in ipairs(all) do
    local held = pair[2]
    local record = parse(held.blob)
    local crashed = guilty == nil and not held.spare or guilty ~= nil and guilty[digits(record.ref)] or false
    if take_back(held.fn, held.number, held.level, record, crashed) then
      returned[#returned + 1] = id_of(record, held.fn, held.number)
    end
  end
  flush_put_back()
  return returned
end

-- Its jobs, its registrations, itself.
local function end_session(session, guilty)
  local returned = return_held(session.id, guilty)
  unregister(session)
  call('ZREM', SESSIONS, session.id)
  call('DEL', held_key(session.id), session_key(session.id))
  call('HSET', session_key(session.id), 'closed', '1')
  call('EXPIRE', session_key(session.id), DAY)
  return returned
end
