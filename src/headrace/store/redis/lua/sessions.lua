-- Sessions. The fields of {ns}:session:<id>:
--   closed (in tombstones), closing (closed, but for leases that go back in steps: 'all', or
--   '=' and d arrival of each of the guilty), number, name, info, timeout, opened, seen (steady clock: what expiry is measured by),
--   seen_at (wall clock: for people), request (the number of the last one answered), answer (a byte per outcome or
--   report), handed (the ids it handed out, msgpack), hungry (the queues it is registered for as hungry, msgpack),
--   memory (bytes that its process takes), stop (an operator has asked it to),
--   unfinished (what an exchange has left to the next, msgpack: see queues.lua),
--   queue:<name> and task:<name> for all that it listens to and knows
--
-- {ns}:expiries says when to look at a session again, to see whether it has expired: not before then can it have. Only sweeps move
-- that on, so requests need not. One that is not in there is found by going through all.
--@include prelude

local EXPIRIES = PREFIX .. 'expiries'

local function session_key(id)
  return PREFIX .. 'session:' .. id
end

local function read_session(id)
  local key = session_key(id)
  local found = call('HMGET', key, 'closed', 'number', 'name', 'timeout', 'seen', 'request', 'answer', 'hungry',
    'unfinished', 'closing', 'stop')
  if found[1] and not found[10] then
    return { closed = true, key = key, id = id }
  end
  if not found[2] then
    return nil
  end
  return {
    id = id, key = key, held = PREFIX .. 'held:' .. id, number = tonumber(found[2]) or 0, name = found[3] or '',
    timeout = tonumber(found[4]) or 0, seen = tonumber(found[5]) or 0, request = tonumber(found[6]) or 0,
    answer = found[7] or '', hungry = found[8] or '', unfinished = found[9] or '', closing = found[10],
    closed = found[10] and true or nil, stop = found[11],
  }
end

-- Only one with leases has anything to lose.
local function expired(session)
  return steady >= session.seen + session.timeout and call('SCARD', session.held) > 0
end

-- The session that a request comes from, if it may still make requests. One that `settles` and takes nothing may be expired: as
-- long as it has not been closed, its tokens are the last ones given out.
local function live_session(id, settles)
  local session = read_session(id)
  if not session then
    fail('GONE', 'Session ' .. id .. ' is not known here.')
  elseif session.closed then
    fail('GONE', 'Session ' .. id .. ' has been closed; its jobs were given to others.')
  elseif expired(session) then
    session.expired = true
    if settles then
      return session
    end
    fail('GONE', 'Session ' .. session.name .. ' (' .. id .. ') was not renewed in time; its jobs go to others.')
  end
  return session
end

-- Whether this very request has been answered before; a lower number comes too late.
local function is_repeat(session, request)
  if not (request and request >= 0 and request < 2 ^ 48 and request % 1 == 0) then
    fail('REFUSED', 'Requests have numbers: 1, 2, 3 and so on. Nothing was written.')
  end
  if request < session.request then
    fail('STALE', string.format(
      'Request %.0f of session %s comes after %.0f was answered.', request, session.name, session.request))
  end
  return request == session.request
end

local function holds(session, job, arrival, token)
  return job and job.state == RUNNING and job.token == token and job.arrival == arrival
    and job.session == session.number
end

-- The queues a session is registered for as hungry.
local function hungry_for(session)
  if session.hungry == '' then
    return {}
  end
  local good, queues = pcall(cmsgpack.unpack, session.hungry)
  return good and type(queues) == 'table' and queues or {}
end

-- A session is registered as hungry only while it is: a hint goes to one session, and another may need it.
local function leave_hungry(session, names)
  for _, name in ipairs(names) do
    call('ZREM', PREFIX .. 'hungry:' .. name, session.id)
  end
end
