-- A job as clients see it, read from the hash `ql:j:<jid>` and the keys beside it.

-- Many jobs may be read in one call: what is looked up for each of them is looked up once.
local stored_number, floor, concat, decode = stored_number, math.floor, table.concat, cjson.decode

-- The fields that a job object is made of, in the order in which `Job.object` takes them; and `time`, for pop.
function Job.read(jid)
  return call('HMGET', 'ql:j:' .. jid, 'jid', 'klass', 'state', 'queue', 'worker', 'priority', 'expires', 'retries',
    'remaining', 'data', 'tags', 'failure', 'spawned_from_jid', 'history', 'time')
end

-- One object per entry of the history: what was noted, with `when` and `what` on top.
local function read_history(key)
  local texts = call('LRANGE', key .. '-history', 0, -1)
  -- All entries at once is quicker than one after the other; with one that is damaged it has to be the latter.
  local valid, entries = pcall(decode, '[' .. concat(texts, ',') .. ']')
  for i = 1, #texts do
    local entry = valid and entries[i] or Qless.Values.stored(texts[i])
    local object = type(entry[3]) == 'table' and entry[3] or {}
    -- (What is short cannot be deep.)
    if #texts[i] > 200 and Qless.Values.is_deep(object) then
      object = {}
    end
    object.when, object.what = entry[1], entry[2]
    texts[i] = object
  end
  return texts
end

-- Always these 17 keys. A missing field is `false` where nothing better is known.
function Job.object(values, tracked)
  local jid, tags, failure = values[1], values[11], values[12]
  local key = 'ql:j:' .. jid
  if values[14] then
    Qless.OldHistory.convert(key, values[14])
  end
  return {
    jid = jid,
    klass = values[2],
    state = values[3],
    queue = values[4],
    worker = values[5] or '',
    tracked = tracked,
    priority = stored_number(values[6], 0),
    expires = stored_number(values[7], 0),
    retries = stored_number(values[8], 0),
    remaining = floor(stored_number(values[9], 0)),
    data = values[10],
    tags = (not tags or tags == '{}') and {} or Qless.Values.stored(tags),
    failure = (not failure or failure == '{}') and {} or Qless.Values.stored(failure),
    spawned_from_jid = values[13],
    history = read_history(key),
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
