-- A job: the hash `ql:j:<jid>` and the keys beside it.
local Job = {}
Qless.Job = Job

-- The fields that a job object is made of, in the order in which `Job.object` takes them.
local FIELDS = {
  'jid', 'klass', 'state', 'queue', 'worker', 'priority', 'expires', 'retries', 'remaining', 'data', 'tags', 'failure',
  'spawned_from_jid', 'history', 'time',
}

function Job.read(jid)
  return call('HMGET', 'ql:j:' .. jid, unpack(FIELDS))
end

-- A job as clients see it: always these 17 keys. A missing field is `false` where nothing better is known.
function Job.object(values, tracked)
  local jid = values[1]
  local key = 'ql:j:' .. jid
  return {
    jid = jid,
    klass = values[2],
    state = values[3],
    queue = values[4],
    worker = values[5] or '',
    tracked = tracked,
    priority = tonumber(values[6]) or 0,
    expires = tonumber(values[7]) or 0,
    retries = tonumber(values[8]) or 0,
    remaining = floor(tonumber(values[9]) or 0),
    data = values[10],
    tags = Qless.Values.stored(values[11]),
    failure = Qless.Values.stored(values[12]),
    spawned_from_jid = values[13],
    history = Qless.History.read(key, values[14]),
    dependents = call('SMEMBERS', key .. '-dependents'),
    dependencies = call('SMEMBERS', key .. '-dependencies'),
  }
end

-- A job object, or nil if there is no such job.
function Job.get(jid)
  local values = Job.read(jid)
  if values[1] then
    return Job.object(values, call('ZSCORE', 'ql:tracked', jid) and true)
  end
end

-- Those of the jobs that exist, in the order asked for.
function Job.get_all(jids)
  local found = {}
  for _, jid in ipairs(jids) do
    found[#found + 1] = Job.get(jid)
  end
  return found
end

return Job
