-- A worker that was woken settles nothing, and mostly finds just what it was woken for: a few plain jobs in a row. One that looks
-- now and then while it is idle finds nothing. Both are answered before all that other exchanges need is set up, which takes
-- longer than this. The short cut does what the long way does; whatever is special makes it answer nil before anything is written.
local function quick_take(session, request)
  local slots, _, how, at = unpack_from('>ddB', ARGV[6])
  if how > 1 then
    return nil
  end
  local queue
  queue, at = unpack_from('>Hc0', ARGV[6], at)
  if queue:find('[*?%[]') then
    return nil
  end
  local registered = hungry_for(session)
  local due = call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
  if session.unfinished ~= '' or at <= #ARGV[6] or registered[2] or registered[1] and registered[1] ~= queue or due and tonumber(due) <= now then
    return nil
  end
  local row, hungry = PREFIX .. 'row:' .. queue, PREFIX .. 'hungry:' .. queue
  local members = call('LRANGE', row, 0, slots - 1)
  local n = #members
  if n >= slots
    or call('EXISTS', PREFIX .. 'line:' .. queue, PREFIX .. 'control', PREFIX .. 'releasing', EVENTS) ~= 0 then
    return nil
  end
  local ids, changed, records, heads = {}, {}, {}, n > 0 and taken_heads(false)
  for i = 1, n do
    ids[i] = members[i]:sub(13)
  end
  local found = read_many('HMGET', JOB, ids)
  local run = pack(RUN_FORMAT, session.number, request, now, 0)
  for i = 1, n do
    local record = stands(members[i], found[i]) and taken(found[i], run, heads)
    if not record or changed[ids[i]] then
      return nil
    end
    changed[ids[i]] = true
    records[i], changed[2 * i - 1], changed[2 * i] = record, ids[i], record
  end
  local counts = n > 0 and call('HMGET', META, READY .. queue, RUNNING .. queue) or {}
  local waiting, running = (tonumber(counts[1] or 0) or 0) - n, (tonumber(counts[2] or 0) or 0) + n
  local tick = call('ZRANGE', PREFIX .. 'ticks', 0, 0, 'WITHSCORES')[2]
  if n > 0 then
    check_type(session.held, 'set')
  end
  check_type(hungry, 'zset')

  even_when_full()
  if n > 0 then
    if waiting <= 0 then
      call('ZREM', READY_QUEUES, queue) -- first: nobody has looked at its type
    end
    bulk('HSET', JOB, changed)
    call('LTRIM', row, n, -1)
    bulk('SADD', session.held, ids)
    if waiting > 0 then
      call('HSET', META, READY .. queue, string.format('%.0f', waiting), RUNNING .. queue, string.format('%.0f', running))
    else
      call('HDEL', META, READY .. queue)
      call('HSET', META, RUNNING .. queue, string.format('%.0f', running))
    end
  end
  call('ZADD', hungry, string.format('%.0f', now), session.id)
  call('PEXPIRE', hungry, 60000)
  local stamp = string.format('%.0f', now)
  call('HSET', session.key, 'seen', string.format('%.0f', steady), 'seen_at', stamp, 'request',
    string.format('%.0f', request), 'answer', '', 'handed', n > 0 and cmsgpack.pack(ids) or '', 'hungry', cmsgpack.pack({ queue }), 'unfinished', '')
  return { stamp, due and string.format('%.0f', due) or '', '', ids, records, {}, tick and string.format('%.0f', tick) or '' }
end
