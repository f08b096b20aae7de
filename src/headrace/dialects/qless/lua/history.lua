-- What happened to a job: the list `ql:j:<jid>-history` of JSON triples, oldest first.
local History = {}
Qless.History = History

local DEFAULT_LIMIT = 100

-- Very old records keep their history in a field, as a list of stays in queues: make entries of them.
local function convert(key, field)
  local entries = {}
  local function add(when, what, extra)
    when = tonumber(when)
    if when then
      entries[#entries + 1] = encode({floor(when), what, extra})
    end
  end
  for _, stay in ipairs(stored(field)) do
    if type(stay) == 'table' then
      add(stay.put, 'put', {q = stay.q})
      add(stay.popped, 'popped', {worker = stay.worker})
      add(stay.failed, 'failed')
      add(stay.done, 'done')
    end
  end
  call_with('RPUSH', key .. '-history', entries)
  call('HDEL', key, 'history')
end

-- Append an entry. `field` is the job's field `history` (only very old records have one), `limit` the option
-- `max-job-history` where the caller has read it already.
--
-- The first entry is always kept, and the newest: a limit of 1 counts as 2, and none of 0 or less as no limit.
function History.append(now, key, what, extra, field, limit)
  if field then
    convert(key, field)
  end
  local length = call('RPUSH', key .. '-history', encode({floor(now), what, extra}))
  if length > 2 then
    if limit == nil then
      limit = call('HGET', 'ql:config', 'max-job-history')
    end
    limit = tonumber(limit) or DEFAULT_LIMIT
    if limit > 0 and length > math.max(limit, 2) then
      local list = key .. '-history'
      local first = call('LPOP', list)
      call('LTRIM', list, -(math.max(floor(limit), 2) - 1), -1)
      call('LPUSH', list, first)
    end
  end
end

-- One object per entry: what was noted, with `when` and `what` on top.
function History.read(key, field)
  if field then
    convert(key, field)
  end
  local found = {}
  for i, text in ipairs(call('LRANGE', key .. '-history', 0, -1)) do
    local entry = stored(text)
    local object = type(entry[3]) == 'table' and entry[3] or {}
    object.when, object.what = entry[1], entry[2]
    found[i] = object
  end
  return found
end

return History
