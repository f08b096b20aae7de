-- Histories as very old records have them.

-- Very old records keep their history in a field, as a list of stays in queues: make entries of them.
function OldHistory.convert(key, field)
  local entries = {}
  local function add(when, what, extra)
    when = stored_number(when)
    if when then
      entries[#entries + 1] = cjson.encode({math.floor(when), what, extra})
    end
  end
  for _, stay in ipairs(Qless.Values.stored(field)) do
    if type(stay) == 'table' then
      add(stay.put, 'put', {q = stay.q})
      add(stay.popped, 'popped', {worker = stay.worker})
      add(stay.failed, 'failed')
      add(stay.done, 'done')
    end
  end
  Qless.Values.call_with('RPUSH', key .. '-history', entries)
  call('HDEL', key, 'history')
end
