-- sweep: the reaper. Ends silent sessions, gives back what dead workers held, forgets jobs that are gone.
--
-- ARGV[2]  cursor of the search for keys of jobs that are gone
-- Answers  {sessions ended, jobs given back, jobs forgotten, 1 if there is more to do, next cursor}
--@include prelude record held session

local SESSIONS_AT_ONCE, LEASES_AT_ONCE, KEYS_AT_ONCE = 100, 500, 200
local closed, returned, forgotten, more = 0, 0, 0, 0

for _, id in ipairs(call('ZRANGEBYSCORE', SESSIONS, '-inf', steady, 'LIMIT', 0, SESSIONS_AT_ONCE)) do
  local session = read_session(id)
  if not session or session.closed then
    call('ZREM', SESSIONS, id)
  elseif not expired(session) then
    call('ZADD', SESSIONS, session.seen + session.timeout, id)
  elseif call('HLEN', held_key(id)) > 0 then
    returned = returned + #end_session(session, nil)
    closed = closed + 1
  else
    -- It holds nothing: should it be alive after all, its next sign of life registers it again.
    unregister(session)
    call('ZREM', SESSIONS, id)
    call('EXPIRE', session_key(id), DAY)
  end
end

for _, fn in ipairs(call('SMEMBERS', FUNCTIONS)) do
  local leases, workers = leases_key(fn), SIDE .. fn .. ':workers'
  for _, lease in ipairs(call('ZRANGEBYSCORE', leases, '-inf', steady, 'LIMIT', 0, LEASES_AT_ONCE)) do
    local level, number = lease:match('^(%a+):(%d+)$')
    local session_id, held = holder_of(fn, number)
    local session = session_id and read_session(session_id)
    if session and not session.closed and not expired(session) then
      call('ZADD', leases, session.seen + session.timeout, lease) -- its worker has been heard of since
    else
      let_go(session_id or '', { { place_of(fn, number), { fn = fn, number = number, level = level } } })
      if take_back(fn, number, level, parse(held and held.blob or read_blob(fn, number)), true) then
        returned = returned + 1
      end
    end
  end
  for _, id in ipairs(call('ZRANGEBYSCORE', workers, '-inf', steady, 'LIMIT', 0, SESSIONS_AT_ONCE)) do
    local session = read_session(id)
    if session and not session.closed and not expired(session) then
      call('ZADD', workers, session.seen + session.timeout, id)
    elseif call('ZREM', workers, id) == 1 and (tonumber(call('GET', 'count:' .. fn) or 0) or 0) > 0 then
      call('DECR', 'count:' .. fn)
    end
  end
  if call('EXISTS', leases, workers) == 0 then
    call('SREM', FUNCTIONS, fn)
  end
end
flush_put_back()

-- Our keys end with their jobs, whoever finished them: a few are looked at each time.
-- Those of one function that have not ended are one key, of which a few are picked at random.
local page = call('SCAN', ARGV[2], 'MATCH', SIDE .. '*', 'COUNT', KEYS_AT_ONCE)
for _, key in ipairs(page[2]) do
  if key:sub(-3) == ':id' then
    local fn, number = (call('GET', key) or ''):match('^(.+):(%d+)$')
    local left = fn and call('PTTL', job_key(fn, number))
    if left == -2 then
      call('DEL', key)
    elseif left and left >= 0 and call('PTTL', key) == -1 then
      call('PEXPIRE', key, left) -- a peer finished it
    end
  elseif key:sub(-5) == ':jobs' then
    local fn = key:sub(#SIDE + 1, -6)
    for _, number in ipairs(call('HRANDFIELD', key, KEYS_AT_ONCE)) do
      if call('EXISTS', job_key(fn, number)) == 0 then
        forgotten = forgotten + call('HDEL', key, number)
      end
    end
  end
end
if closed == SESSIONS_AT_ONCE or returned >= LEASES_AT_ONCE then
  more = 1
end
return { closed, returned, forgotten, more, page[1] }
