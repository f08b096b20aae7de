-- Schedules of headrace's: recurring jobs that have a name. Those of other clients go by their jids.
--
-- A jid is never used again, because occurrences are called `<jid>-<number>`. So the names are kept beside the protocol,
-- in the hash `headrace:qless:schedules` (name -> jid), and with the recurring jobs, as the field `headrace-name`.

local NAMES = 'headrace:qless:schedules'
-- How many recurring jobs of each queue are looked at.
local MOST = 1000

-- The name of a recurring job; nil if there is no such job.
local function name_of(jid)
  local found, name = unpack(call('HMGET', 'ql:r:' .. jid, 'jid', 'headrace-name'))
  return found and (name or jid) or nil
end

-- The jid of the recurring job of this name, or nil. Others may have removed one without our knowing.
local function find(name)
  local jid = call('HGET', NAMES, name)
  if jid and name_of(jid) == name then
    return jid
  end
  return name_of(name) == name and name or nil
end

-- All about a recurring job. `version` is another number whenever something else about it is other, whoever changed it.
local function describe(name, jid)
  local key = 'ql:r:' .. jid
  local found = Qless.Recurring.get(jid)
  found.name = name
  found.next = call('ZSCORE', 'ql:q:' .. (found.queue or '') .. '-recur', jid)
  found.options, found.kept, found.created, found.stored_retries = unpack(
    call('HMGET', key, 'headrace-options', 'headrace-schedule', 'headrace-created', 'headrace-retries'))
  found.last = call('LINDEX', 'ql:j:' .. jid .. '-' .. string.format('%.0f', found.count) .. '-history', 0)
  local state = {jid, tostring(found.next)}
  for i, value in ipairs(call('HMGET', key, 'klass', 'data', 'queue', 'priority', 'tags', 'interval', 'retries', 'backlog',
    'count', 'headrace-options', 'headrace-schedule', 'headrace-created', 'headrace-retries')) do
    state[i + 2] = cjson.encode(tostring(value))
  end
  found.version = tonumber(string.sub(redis.sha1hex(table.concat(state, ' ')), 1, 11), 16)
  return found
end

-- all
-- Reply: JSON list of names, in no order, perhaps twice, perhaps of some that are gone.
function Schedules.all()
  local names = call('HKEYS', NAMES)
  for _, queue in ipairs(call('ZRANGE', 'ql:queues', 0, -1)) do
    for _, jid in ipairs(call('ZRANGE', 'ql:q:' .. queue .. '-recur', 0, MOST - 1)) do
      names[#names + 1] = name_of(jid)
    end
  end
  return names
end

-- named names
-- Reply: JSON list of those that there are, as `recur.get` tells them, with name, next, last, version and fields of ours.
function Schedules.named(_, names)
  local found = {}
  for _, name in ipairs(names) do
    local jid = find(name)
    if jid then
      found[#found + 1] = describe(name, jid)
    end
  end
  return found
end

-- put name new ours expected
-- Stores a recurring job (see `Recurring.recur`) if the one of this name has the version expected (nothing: if there is
-- none), with fields of ours. Reply: 1, or 0 if it has another.
function Schedules.put(now, name, new, ours, expected)
  local jid = find(name)
  if (jid and describe(name, jid).version) ~= expected then
    return 0
  end
  new.jid = jid or new.jid
  local key = 'ql:r:' .. new.jid
  if jid and new.keeps_retries then
    new.retries = stored_number(call('HGET', key, 'retries'), new.retries)
  end
  Qless.Recurring.recur(now, new)
  call('HMSET', key, 'headrace-name', name, 'headrace-schedule', ours.schedule, 'headrace-retries', new.retries)
  call('HSETNX', key, 'headrace-created', now)
  if ours.options then
    call('HSET', key, 'headrace-options', ours.options)
  else
    call('HDEL', key, 'headrace-options')
  end
  call('HSET', NAMES, name, new.jid)
  return 1
end

-- delete name
-- Reply: 1, or 0 if there is none.
function Schedules.delete(_, name)
  local jid = find(name)
  call('HDEL', NAMES, name)
  if not jid then
    return 0
  end
  Qless.Recurring.unrecur(jid)
  return 1
end
