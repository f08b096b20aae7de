-- How a session ends: its leases end like outcome CRASHED or RELEASED, and their tokens move on.

-- `guilty`: arrival numbers of the jobs to be charged a crash, or nil: all that are not spare.
local function give_back(session, guilty)
  local ids = call('SMEMBERS', session.held)
  load_many(ids)
  local held = {}
  for _, id in ipairs(ids) do
    local job = find_job(id)
    if job and job.state == RUNNING and job.session == session.number then
      held[#held + 1] = job
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

-- Written after the jobs: of the session a tombstone remains for `age` milliseconds, so that it cannot be opened again.
local function bury(session, age)
  for _, queue in ipairs(hungry_for(session)) do
    call('ZREM', PREFIX .. 'hungry:' .. queue, session.id)
  end
  call('ZREM', SESSIONS, session.id)
  call('DEL', session.key, session.held)
  call('HSET', session.key, 'closed', string.format('%.0f', now))
  call('PEXPIRE', session.key, age)
end
