-- How a session ends: its leases end like outcome CRASHED or RELEASED, and their tokens move on. One that holds many is closed for
-- all requests at once, and gives them back in steps: by the process that closes it, or by sweeps.
--@include sessions settle

local LEASES_AT_ONCE = 100

-- The jobs that are charged a crash: arrival numbers, or nil: all that are not spare.
local function guilty_of(said)
  if said == 'all' then
    return nil
  end
  local guilty = {}
  for at = 2, #said, 8 do
    guilty[unpack_from('>d', said, at)] = true
  end
  return guilty
end

-- So many at most, in order of arrival; the session notes whether these were all. Answers their ids.
local function give_back(session, said, most)
  local guilty, ids = guilty_of(said), call('SRANDMEMBER', session.held, most)
  session.left = call('SCARD', session.held) > #ids and said
  load_many(ids)
  local held = {}
  for _, id in ipairs(ids) do
    local job = find_job(id)
    if job and job.state == RUNNING and job.session == session.number then
      held[#held + 1] = job
    else
      append(plan.held_out, session.held, id)
    end
  end
  table.sort(held, function(a, b)
    return a.arrival < b.arrival
  end)
  local returned = {}
  for i, job in ipairs(held) do
    local crashed = guilty and guilty[job.arrival] or not guilty and band(job.flags, SPARE) == 0
    if not guilty then
      happened(job, 'lost', '', session.name)
    end
    end_run(session, job, {
      kind = crashed and K_CRASHED or K_RELEASED, charge = 0, delay = 0, note = crashed and 'its worker died' or '',
    })
    job.token = job.token + 1
    returned[i] = job.id
  end
  for _, queue in ipairs(hungry_for(session)) do
    check_type(PREFIX .. 'hungry:' .. queue, 'zset')
  end
  return returned
end

-- Written after the jobs: no hint goes to this session any more. It is closed, but for the leases that are left.
local function fence(session)
  leave_hungry(session, hungry_for(session))
  call('HSET', session.key, 'closing', session.left, 'hungry', '')
  call('ZADD', EXPIRIES, 0, session.id) -- for the next sweep
end

-- Likewise: of the session a tombstone remains for `age` milliseconds, so that it cannot be opened again.
local function bury(session, age)
  leave_hungry(session, hungry_for(session))
  call('ZREM', SESSIONS, session.id)
  call('ZREM', EXPIRIES, session.id)
  call('DEL', session.key, session.held)
  call('HSET', session.key, 'closed', string.format('%.0f', now))
  call('PEXPIRE', session.key, age)
end
