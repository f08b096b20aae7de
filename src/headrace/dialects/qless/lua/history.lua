-- What happened to a job: the list `ql:j:<jid>-history` of JSON triples, oldest first.
local History = {}
Qless.History = History

local DEFAULT_LIMIT = 100

-- Append an entry: JSON text, `[when,what]` or `[when,what,{extra}]` with `when` in whole seconds. `field` is the job's
-- field `history` (only very old records have one), `limit` the option `max-job-history` where the caller has read it.
--
-- The first entry is always kept, and the newest: a limit of 1 counts as 2, and none of 0 or less as no limit.
function History.append(key, entry, field, limit)
  if field then
    Qless.OldHistory.convert(key, field)
  end
  local length = call('RPUSH', key .. '-history', entry)
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

return History
