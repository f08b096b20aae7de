-- What an exchange asks for, and the short way of one that settles nothing and finds nothing: every sleeper asks now and then.
--@include checks sessions hungry

local HINTS_AT_MOST = 100
local RELEASING = PREFIX .. 'releasing'
local asks = { rows = {}, lines_at_most = 16 }

-- What to take: how many jobs, how many more to hold ready, whether queues take turns, how long a worker needs to start a job, above
-- which priority it is rung for more, and the names of queues. Nil: nothing.
function asks.read_take(sent)
  if sent == '' then
    return nil
  end
  local ask = { grace = 0, names = {} }
  local how, at
  ask.slots, ask.spare, how, at = unpack_from('>ddB', sent)
  ask.round_robin = band(how, 1) == 1
  if band(how, 2) ~= 0 then
    ask.grace, at = unpack_from('>d', sent, at)
    checks.integer(ask.grace, -1, LATEST, 'How long it takes to start a job, by session ', ARGV[2])
  end
  if band(how, 4) ~= 0 then
    ask.above, at = unpack_from('>d', sent, at)
    checks.integer(ask.above, -2147483648, 2147483647, 'The priority of what waits, by session ', ARGV[2])
  end
  while at <= #sent do
    ask.names[#ask.names + 1], at = unpack_from('>Hc0', sent, at)
  end
  if ask.names[1] and ask.names[1]:find('^%[=%x+@%d+$') then -- a list of names, from a place on
    ask.names[1], ask.start = ask.names[1]:match('^(.*)@(%d+)$')
  end
  if not (ask.slots >= 0 and ask.spare >= 0 and ask.slots + ask.spare <= 100000 and ask.slots % 1 == 0 and ask.spare % 1 == 0) then
    checks.refuse('How many jobs to take, and to hold ready, are integers that come to 100,000 at most.')
  end
  ask.wanted = ask.slots + ask.spare
  return ask
end

-- A session with a line of jobs is rung for more urgent ones of the queues that they are from, if it asks for that. `from` has these
-- as its keys. Where it is registered.
function asks.lines(ask, given, from)
  local keys = {}
  for queue in pairs(ask and ask.above and #given >= ask.slots and from or {}) do
    keys[#keys + 1] = #keys < asks.lines_at_most and PREFIX .. 'urgent:' .. queue or nil
  end
  for _, key in ipairs(keys) do
    check_type(key, 'zset')
  end
  return keys
end

function asks.be_rung(session, ask, keys)
  for _, key in ipairs(keys) do
    if call('ZADD', key, ask.above, session.id) == 1 then
      call('PEXPIRE', key, 60000)
    end
  end
end

-- The end of every exchange: what a repetition of it is answered with, and that the session has been seen.
function asks.note_exchange(session, request, verdicts, given, hungry, unfinished)
  local values = { 'request', string.format('%.0f', request), 'answer', verdicts,
    'handed', given[1] and cmsgpack.pack(given) or '', 'hungry', hungry[1] and cmsgpack.pack(hungry) or '',
    'unfinished', unfinished }
  if not session.expired then
    values[11], values[12], values[13], values[14] = 'seen', string.format('%.0f', steady), 'seen_at', string.format('%.0f', now)
  end
  call('HSET', session.key, unpack(values))
end

-- Whether none of the queues in a list has ready jobs. Nil: too many others have some to say so here.
function asks.none_ready(list)
  local key, ready = patterns.list_asked_for(list), call('ZRANGE', READY_QUEUES, 0, HINTS_AT_MOST)
  for _, place in ipairs(ready[1] and call('ZMSCORE', key, unpack(ready)) or {}) do
    if place then return nil end
  end
  return #ready <= HINTS_AT_MOST
end

-- Whether a take of plain names, or of a list of them, finds nothing: no ready jobs, and no dependents to release. What is read of the
-- first queue's row is kept for the take: most find something there.
function asks.finds_nothing(session, ask)
  local names = ask and ask.names or {}
  if not names[1] or ask.slots == 0 or session.expired or session.unfinished ~= '' or #names > HINTS_AT_MOST then
    return false
  end
  if #names == 1 and patterns.list_key(names[1]) then
    return asks.none_ready(names[1]) and call('EXISTS', RELEASING) == 0
  end
  local keys = { RELEASING, PREFIX .. 'line:' .. names[1] }
  for i, name in ipairs(names) do
    if is_pattern(name) then
      return false
    elseif i > 1 then
      keys[#keys + 1] = PREFIX .. 'row:' .. name
      keys[#keys + 1] = PREFIX .. 'line:' .. name
    end
  end
  asks.rows[names[1]] = call('LRANGE', PREFIX .. 'row:' .. names[1], 0, ask.wanted - 1)
  if asks.rows[names[1]][1] then
    return false
  end
  absent[TICKS] = call('EXISTS', TICKS, unpack(keys)) == 0
  return absent[TICKS] or call('EXISTS', unpack(keys)) == 0
end

-- The answer of such an exchange: the session is hungry. That it holds nothing, if so, saves it a renewal, by which one that is to
-- stop would hear of that; how long ago there was a sweep saves it asking. Nil: jobs have fallen due.
function asks.find_nothing(session, request, names)
  local due = call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
  if due and tonumber(due) <= now then
    return nil
  end
  local registered, tick = hungry_for(session), not absent[TICKS] and call('ZRANGE', TICKS, 0, 0, 'WITHSCORES')[2]
  local holds_nothing, swept = call('EXISTS', session.held) == 0 and not session.stop, tonumber(call('HGET', META, 'swept') or '')
  check_hungry(names)
  check_hungry(registered)
  even_when_full()
  if not (registered[1] == names[1] and #registered == 1) then
    leave_hungry(session, registered)
  end
  be_hungry(session.id, names)
  asks.note_exchange(session, request, '', {}, names, '')
  return { string.format('%.0f', now), due or '', '', {}, {}, {}, tick or '', holds_nothing and 1 or 0,
    swept and swept <= steady and string.format('%.0f', steady - swept) or '' }
end
