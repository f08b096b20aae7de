-- Workers: `ql:workers` by their last sign of life, `ql:w:<w>:jobs` by the end of the lock.

-- No lock is longer than a hundred days; what claims to be is not listed.
local LONGEST = 8640000

-- Forget those that have not been heard of for `max-worker-age` seconds.
local function forget_stale(now)
  local age = option(call('HGET', 'ql:config', 'max-worker-age'), 86400)
  for _, worker in ipairs(call('ZRANGEBYSCORE', 'ql:workers', 0, now - age, 'LIMIT', 0, Qless.CHUNK)) do
    call('DEL', 'ql:w:' .. worker .. ':jobs')
    call('ZREM', 'ql:workers', worker)
  end
end

-- What one worker has, and what it has had for too long.
function Worker.jobs(now, worker)
  forget_stale(now)
  local key = 'ql:w:' .. worker .. ':jobs'
  return {
    jobs = call('ZREVRANGEBYSCORE', key, now + LONGEST, now),
    stalled = call('ZREVRANGEBYSCORE', key, now, 0),
  }
end

-- Counts of the same for all workers, the most recently active first.
function Worker.all_counts(now)
  forget_stale(now)
  local found = {}
  for i, worker in ipairs(call('ZREVRANGE', 'ql:workers', 0, -1)) do
    local key = 'ql:w:' .. worker .. ':jobs'
    found[i] = {name = worker, jobs = call('ZCOUNT', key, now, now + LONGEST), stalled = call('ZCOUNT', key, 0, now)}
  end
  return found
end

function Worker.deregister(workers)
  Qless.Values.call_with('ZREM', 'ql:workers', workers)
end
