-- How a session ends: its leases end like outcome CRASHED or RELEASED, and their tokens move on. One that holds many is closed for
-- everybody at once, and gives them back in steps: by the process that closes it, or by sweeps.
--@include sessions settle

local LEASES_AT_ONCE = 100

-- Who is to be charged a crash: arrival numbers, or nil: all that are not spare.
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
    local crashed
    if guilty then
      crashed = guilty[job.arrival]
    else
      crashed = band(job.flags, SPARE) == 0
    end
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

-- Written after the jobs: nobody tells it of work any more.
local function withdraw_from_news(session)
  for _, queue in ipairs(hungry_for(session)) do
    call('ZREM', PREFIX .. 'hungry:' .. queue, session.id)
  end
end

-- Likewise: closed, but for the leases that are left.
local function fence(session)
  withdraw_from_news(session)
  call('HSET', session.key, 'closing', session.left, 'hungry', '')
  call('ZADD', EXPIRIES, 0, session.id) -- for the next sweep
end

-- Likewise: of the session a tombstone remains for `age` milliseconds, so that it cannot be opened again.
local function bury(session, age)
  withdraw_from_news(session)
  call('ZREM', SESSIONS, session.id)
  call('ZREM', EXPIRIES, session.id)
  call('DEL', session.key, session.held)
  call('HSET', session.key, 'closed', string.format('%.0f', now))
  call('PEXPIRE', session.key, age)
end
