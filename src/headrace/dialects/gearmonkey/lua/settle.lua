-- What became of runs. An outcome: {ref, token, id, kind, charge, at (ms, or -1), delay, data, error, group, output, result,
-- began, ended (ms ago, or -1)}; what is not given is false.

local DONE, AGAIN, FAILED, BROKEN, RELEASED, CRASHED = 0, 1, 2, 3, 4, 5
local ATTEMPT, DEFERRAL = 1, 2
local OK, ALREADY, STALE = 0, 1, 2

local function settle(session, outcome)
  local fn, number = locate(outcome[3])
  if not fn then
    return STALE
  end
  local key, job = record_key(fn, number), job_key(fn, number)
  local record = read_record(fn, number)
  local ref = digits(outcome[1])
  if record.session ~= session.id or record.ref ~= ref or record.token ~= digits(outcome[2]) then
    return STALE
  end
  if call('HEXISTS', held_key(session.id), ref) == 0 then
    return ALREADY
  end
  call('HDEL', held_key(session.id), ref)
  call('ZREM', leases_key(fn), record.level .. ':' .. number)
  if call('EXISTS', job) == 0 then
    return STALE -- deleted by somebody who knows nothing of leases
  end
  local kind, charge, data, text, group = outcome[4], outcome[5], outcome[8], outcome[9], outcome[10]
  local set, gone = {}, { 'spare', 'cancelling' }
  local function put(name, value)
    set[#set + 1] = name
    set[#set + 1] = value
  end
  if charge == ATTEMPT then
    put('attempts', tonumber(record.attempts or 0) + 1)
  end
  if charge == DEFERRAL then
    put('deferred', record.deferred or digits(now))
  else
    gone[#gone + 1] = 'deferred'
  end
  if data then put('data', data) end
  if text then put('error', text) end
  if outcome[13] >= 0 then put('started', digits(now - outcome[13])) end
  local status, output
  local crashes = tonumber(record.crashes or 0)
  if kind == CRASHED then
    crashes = crashes + 1
    put('crashes', crashes)
  end
  if record.cancelling and kind ~= DONE then
    put('state', 'cancelled')
    status, output = 'error', 'cancelled'
  elseif kind == DONE then
    gone[#gone + 1] = 'error'
    gone[#gone + 1] = 'group'
    put('result', outcome[12])
    status, output = 'success', outcome[11]
  elseif kind == FAILED or kind == BROKEN then
    put('group', kind == BROKEN and 'broken' or group or '')
    status, output = 'error', outcome[11]
  elseif kind == CRASHED and crashes >= tonumber(record.max or 3) then
    put('group', 'crashed')
    status, output = 'error', 'crashed: ' .. crashes .. ' workers died while running this job'
  elseif kind == AGAIN then
    if group then put('group', group) end
    call('HSET', job, 'status', 'idle')
    put('due', digits(line_up(fn, number, level_of(record), outcome[6] >= 0 and outcome[6] or now + outcome[7])))
    call('PUBLISH', SIDE .. fn .. ':wake', number)
  else
    give_back(fn, number, record.level, math.floor(tonumber(record.due or now) / 1000))
  end
  if status then
    put('finished', digits(now - math.max(outcome[14], 0)))
  end
  call('HDEL', key, unpack(gone))
  if set[1] then
    call('HSET', key, unpack(set))
  end
  if status then
    finish(fn, number, status, output, record.id)
  end
  return OK
end
