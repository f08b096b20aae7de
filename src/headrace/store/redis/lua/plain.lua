-- Plain jobs, on the bytes of their records alone. Nearly all of a busy server's work is jobs that are handed out for the first
-- time and jobs that are done after it: these do what settle.lua and take.lua do, in a quarter of the time. A job that has
-- anything special makes them return nil, and is left to those.
--
-- The jobs of a batch have the first bytes of their records in common, mostly: what becomes of these is worked out once. And
-- what does not change is copied as bytes: a server spends more on making a string than on anything else here.
--@include asks wait stats job

local SPECIAL = CANCELLING + STORY + LARGE_BODY + MORE

local QUEUES_BESIDES = 100
local LANES, EXPIRING = PREFIX .. 'lanes', PREFIX .. 'expiring'
local stands, taken_heads, taken, settle_plain, as_bytes, take_plain
local beyond_kept, uses_more, any_expired, history_over, exchange_plain, asks_plainly

do -- only these are names outside: a script may have 200

-- Whether an entry of a row still stands for a job that is ready.
function stands(member, record)
  if not record or #record < HEAD_SIZE then
    return false
  end
  local due, arrival = unpack_from('>I6I6', member)
  local its_due, its_arrival = unpack_from('>I6xxxxxxI6', record, DUE_AT)
  return its_arrival == arrival and its_due == due and record:byte(1) == READY
end

-- From the first bytes of ready records (state, flags, token) to those of running ones; false where there is more to it.
function taken_heads(spare)
  return setmetatable({}, { __index = function(heads, head)
    local state, flags, token = unpack_from('>BHI', head)
    heads[head] = state == READY and band(flags, SPECIAL + RUN) == 0
      and pack('>BHI', RUNNING, with(flags, spare and RUN + SPARE or RUN), token + 1)
    return heads[head]
  end })
end

-- A ready record as a running one. `run` is the bytes of the run, the same for all jobs of an exchange.
function taken(record, run, heads)
  if not record or #record < HEAD_SIZE then
    return nil
  end
  local head, middle = unpack_from('c7c34', record)
  head = heads[head]
  return head and head .. middle .. run .. record:sub(HEAD_SIZE + 1)
end

-- The stories of jobs that one worker has done: one without and the two ends of one with a result.
local function happy_stories(worker)
  local plain = pack(STORY_FORMAT, 0, #worker, worker, 0, '', 0, '', 0, '', 0, '', 0, 0, 0)
  return plain, plain:sub(1, 9 + #worker), plain:sub(14 + #worker)
end

-- From the first bytes of running records (state, flags, token, attempts) to those of done ones, and their tokens; false where
-- there is more to it.
local function done_heads(attempts_spent, more)
  local tokens = {}
  return setmetatable({}, { __index = function(heads, head)
    local state, flags, token, attempts = unpack_from('>BHII', head)
    local plain = state == RUNNING and band(flags, SPECIAL) == 0
    heads[head] = plain and pack('>BHII', DONE, with(without(flags, SPARE), more), token, attempts + attempts_spent)
    tokens[head] = plain and token
    return heads[head]
  end }), tokens
end

-- A running record as a done one: record, queue, and when it was due. `times` is the bytes of its start and its end.
local function done(record, session, arrival, token, heads, tokens, times, story)
  if not record or #record < HEAD_SIZE + RUN_SIZE + 4 then
    return nil
  end
  local head, middle = unpack_from('c11c40', record)
  local due, arrived, length, holder = unpack_from('>I6xxxxxxI6xxxxxxII', record, DUE_AT)
  local high, low = record:byte(64, 65)
  local changed, queue_end = heads[head], 65 + high * 256 + low
  if not changed or tokens[head] ~= token or arrived ~= arrival or holder ~= session.number
    or #record ~= HEAD_SIZE + RUN_SIZE + length or queue_end + 2 > #record then
    return nil
  end
  return changed .. middle .. times .. record:sub(64) .. story, record:sub(66, queue_end), due
end

-- What only some outcomes say: as a table, and where the next outcome begins.
local function read_rare(sent, at, id, kind, charge, when, began, ended, given)
  local other = { kind = kind, charge = charge, delay = when }
  checks.number(kind, K_DONE, K_WAITING, 'What became of job ', id)
  checks.number(charge, 0, C_DEFERRAL, 'The charge of job ', id)
  if band(given, 1) ~= 0 then
    other.at = when
    checks.number(when, 0, LATEST, 'The new time of job ', id)
  else
    checks.duration(when, 'The delay of job ', id)
  end
  if band(given, 2) ~= 0 then other.began = began end
  other.unstarted = kind == K_RELEASED and not other.began
  if band(given, 4) ~= 0 then other.ended = ended end
  if band(given, 8) ~= 0 then other.queue, at = unpack_from('>Hc0', sent, at) end
  if band(given, 16) ~= 0 then other.task, at = unpack_from('>Hc0', sent, at) end
  if band(given, 32) ~= 0 then other.group, at = unpack_from('>Hc0', sent, at) end
  if band(given, 64) ~= 0 then other.note, at = unpack_from('>Hc0', sent, at) end
  if band(given, 128) ~= 0 then other.body, at = unpack_from('>Ic0', sent, at) end
  if band(given, 256) ~= 0 then other.data, at = unpack_from('>Ic0', sent, at) end
  if band(given, 512) ~= 0 then other.result, at = unpack_from('>Ic0', sent, at) end
  if band(given, 1024) ~= 0 then other.error, at = unpack_from('>Ic0', sent, at) end
  if band(given, 2048) ~= 0 then
    other.after, at = unpack_from('>Ic0', sent, at)
    checks.names(other.after, 'what to wait for of job ', id)
  end
  if band(given, 4096) ~= 0 then other.account, at = unpack_from('>Ic0', sent, at) end
  if band(given, 8192) ~= 0 then other.base, at = unpack_from('>Ic0', sent, at) end
  for _, name in ipairs({ 'queue', 'task', 'group', 'note' }) do
    if other[name] then
      checks.text(other[name], 'The new ' .. name .. ' of job ', id)
    end
  end
  return other, at
end

-- The outcomes of a request: lists of what is needed to settle a job that is done, and tables of the others.
local function read_outcomes(sent)
  local at, n = 1, 0
  local ids, arrivals, tokens, charges, begans, endeds, results, others = {}, {}, {}, {}, {}, {}, {}, {}
  local began_before, ended_before -- many have them in common
  while at <= #sent do
    n = n + 1
    local kind, charge, when, began, ended, given
    ids[n], arrivals[n], tokens[n], kind, charge, when, began, ended, given, at = unpack_from('>Hc0ddBBdddH', sent, at)
    charges[n], begans[n], endeds[n] = charge, began, ended
    if began ~= began_before or ended ~= ended_before then
      if not (began >= -LATEST / 2 and began <= LATEST / 2 and ended >= -LATEST / 2 and ended <= LATEST / 2) then
        checks.refuse('Job ' .. ids[n] .. ' cannot have begun and ended at these times.')
      end
      began_before, ended_before = began, ended
    end
    if kind == K_DONE and charge <= C_ATTEMPT and given == 6 then
      others[n] = false
    elseif kind == K_DONE and charge <= C_ATTEMPT and given == 518 then
      results[n], at = unpack_from('>Ic0', sent, at)
      others[n] = #results[n] > INLINE and {
        kind = kind, charge = charge, delay = when, began = began, ended = ended, result = results[n] }
    else
      others[n], at = read_rare(sent, at, ids[n], kind, charge, when, began, ended, given)
    end
  end
  return ids, arrivals, tokens, charges, begans, endeds, results, others
end

-- The ids of jobs with those at the heads of the rows that a take looks at: all are read in one go.
local function with_rows(ids, ask)
  local all, left = {}, ask.wanted
  for _, queue in ipairs(ask.names) do
    if left <= 0 then
      break
    end
    local row = asks.rows[queue] or call('LRANGE', PREFIX .. 'row:' .. queue, 0, left - 1)
    asks.rows[queue], left = row, left - #row
    for _, member in ipairs(row) do
      all[#all + 1] = member:sub(13)
    end
  end
  for _, id in ipairs(ids) do
    all[#all + 1] = id
  end
  return all
end

-- Settles outcomes. Jobs that are done, and plain, are settled here; any other is left to `settle_other(verdicts, i, id, arrival,
-- token, outcome)`. `ask`: what is going to be taken, if that is plain, too. Answers {verdicts: a number by place; done: the ids of the plain ones; scores: when they ended; number: of these}.
function settle_plain(session, sent, settle_other, ask)
  local ids, arrivals, tokens, charges, begans, endeds, results, others = read_outcomes(sent)
  load_many(ask and with_rows(ids, ask) or ids)
  local plain, before, after = happy_stories(session.name)
  local heads, known, left = {}, {}, {}
  local verdicts, numbers, happy, scores, n, bytes = {}, {}, {}, {}, 0, 0
  local began, ended, started, finished, times, stamp
  for i = 1, #ids do
    local id, arrival, token, other = ids[i], arrivals[i], tokens[i], others[i]
    local record, queue, due
    if not other and not left[id] and not (plan and plan.jobs[id] ~= nil) then
      if begans[i] ~= began or endeds[i] ~= ended then
        began, ended = begans[i], endeds[i]
        started, finished = math.max(now - began, 1), math.max(now - ended, 1)
        times = pack('>I6I6', started, finished)
        stamp = string.format('%.0f', finished)
      end
      local result, which, story = results[i], charges[i], plain
      if result then
        which = which + 2
        story = before .. pack('>Ic0', #result, result) .. after
      end
      if not heads[which] then
        heads[which], known[which] = done_heads(charges[i], result and STORY + HAS_RESULT or STORY)
      end
      record, queue, due = done(raw[id], session, arrival, token, heads[which], known[which], times, story)
    end
    if record then
      rewrite(id, record)
      n = n + 1
      bytes = bytes + #record
      happy[n], scores[n] = id, stamp
      fold(queue, due, started, finished)
      numbers[queue] = (numbers[queue] or 0) + 1
      verdicts[i] = V_OK
      if has_subscribers() then
        happened_to(id, record, HEAD_SIZE + RUN_SIZE + 1, 'done', '', session.name)
      end
    else
      left[id] = true
      settle_other(verdicts, i, id, arrival, token, other or {
        kind = K_DONE, charge = charges[i], began = begans[i], ended = endeds[i], result = results[i] })
    end
  end
  for queue, number in pairs(numbers) do
    count(queue, RUNNING, -number)
    count(queue, DONE, number)
  end
  if n > 0 then
    -- As `history_memory.of` does: a first run, nothing large.
    counts.ended_bytes = (counts.ended_bytes or 0) + bytes + n * PLACES
  end
  return { verdicts = verdicts, done = happy, scores = scores, number = n }
end

function as_bytes(verdicts)
  local bytes = {}
  for first = 1, #verdicts, 4000 do
    bytes[#bytes + 1] = string.char(unpack(verdicts, first, math.min(first + 3999, #verdicts)))
  end
  return table.concat(bytes)
end

-- Ready jobs from the rows of queues, in the order of the queues: {ids; records as they will be; from: queue -> how many}. Nil
-- where one of them is special, or no longer ready.
function take_plain(session, request, ask)
  local ids, records, from, n, found = {}, {}, {}, 0, {}
  local run = pack(RUN_FORMAT, session.number, request, now, 0)
  local heads, spare_heads = taken_heads(false), taken_heads(true)
  for _, queue in ipairs(ask.names) do
    if n == ask.wanted then
      break
    end
    local members, entries = asks.rows[queue] or call('LRANGE', PREFIX .. 'row:' .. queue, 0, ask.wanted - n - 1), {}
    for i = 1, #members do
      entries[i] = members[i]:sub(13)
    end
    load_many(entries)
    for i = 1, #members do
      local id = entries[i]
      local record = not found[id] and stands(members[i], raw[id])
        and taken(raw[id], run, n < ask.slots and heads or spare_heads)
      if not record then
        return nil
      end
      n = n + 1
      ids[n], records[n], found[id] = id, record, true
    end
    if members[1] then
      from[queue] = (from[queue] or 0) + #members
    end
  end
  return { ids = ids, records = records, from = from }
end

-- Done jobs beyond the number to keep go when they are worth a step, and then faster than they come. How many there are beyond,
-- and how many are worth a step.
function beyond_kept(there, coming, kept)
  return there + coming - kept, math.floor(math.min(math.max(kept / 50, 100), 1000))
end

-- Whether lanes, limits, patterns, dependencies or blocks may have a say. One EXISTS shows that only plain jobs and queues are in
-- use, and that no session sleeps; else it takes some more. Which of the keys are absent is known then.
function uses_more(names)
  local keys = { RELEASING, LANES, CONTROL, PATTERNS, PREFIX .. 'blocked', EVENTS, SETTINGS, TICKS, WATCHED, EXPIRING }
  for i = 1, math.min(#names, HINTS_AT_MOST) do
    keys[#keys + 1] = PREFIX .. 'hungry:' .. names[i]
    keys[#keys + 1] = PREFIX .. 'line:' .. names[i]
  end
  for _, number in ipairs({ #keys, 8, 5 }) do
    if call('EXISTS', unpack(keys, 1, number)) == 0 then
      for i = 1, number do
        absent[keys[i]] = true
      end
      return false
    end
  end
  return true
end

-- Whether jobs that wait have not started in time: takes do not hand them out.
function any_expired()
  local first = not absent[EXPIRING] and call('ZRANGE', EXPIRING, 0, 0, 'WITHSCORES')[2]
  return first and tonumber(first) < now
end

-- How many bytes ended jobs take beyond what they may, with those of `counts`. Sweeps work the bound out, and keep it in META.
function history_over()
  local fields = { 'ended_bytes', 'history_memory' }
  for field in pairs(counts) do
    fields[#fields + 1] = field
  end
  read_meta(fields)
  local bound = tonumber(meta_seen.history_memory or '')
  return bound and (tonumber(meta_seen.ended_bytes or '') or 0) + (counts.ended_bytes or 0) - bound or 0
end

-- Writes what plain jobs need. The first write takes no memory, so that a full server lets all of them through; and the
-- type of what it is done to has not been looked at: it is refused if that is wrong.
local function write_plain(session, settled, got)
  local set, zeros, _, emptied = changed_counts()
  local statistics = changed_stats()
  local is_watched = settled.number > 0 and check_type(WATCHED, 'zset')
  if got.ids[1] and settled.number == 0 then
    check_type(session.held, 'set')
  end
  if settled.number > 0 then
    if emptied[1] then
      check_type(READY_QUEUES, 'zset')
    end
    bulk('SREM', session.held, settled.done)
  elseif not emptied[1] then
    even_when_full()
  end
  bulk('ZREM', READY_QUEUES, emptied)
  bulk('HSET', JOB, rewritten)
  for queue, number in pairs(got.from) do
    call('LTRIM', PREFIX .. 'row:' .. queue, number, -1)
  end
  if settled.number > 0 then
    local ended = {}
    for i = 1, settled.number do
      ended[2 * i - 1], ended[2 * i] = settled.scores[i], settled.done[i]
    end
    bulk('ZADD', ENDED[DONE], ended)
  end
  bulk('SADD', session.held, got.ids)
  bulk('HDEL', META, zeros)
  bulk('HSET', META, set)
  write_stats(statistics)
  if is_watched then
    wake_job_waiters(settled.done)
  end
end

-- An exchange of nothing but plain jobs: its answer. Nil: something is special, and nothing has been written; and what has been
-- settled so far. `others` in there are the outcomes that have not been: what `settle_other` is called with.
function exchange_plain(session, request, ask, kept)
  local others, names = {}, ask and ask.names or {}
  local settled = settle_plain(session, ARGV[4], function(...)
    others[#others + 1] = { ... }
  end, ask)
  settled.others = others
  local due = call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
  local special = others[1] or ask and due and tonumber(due) <= now
  if settled.number > 0 then
    local surplus, step = beyond_kept(call('ZCARD', ENDED[DONE]), settled.number, kept or setting('jobs-history-count'))
    special = special or surplus >= step
  end
  for _, name in ipairs(names) do
    special = special or check_type(PREFIX .. 'line:' .. name, 'zset')
  end
  local got = not special and (ask and take_plain(session, request, ask) or not ask and { ids = {}, records = {}, from = {} })
  if not got then
    return nil, settled
  end
  if settled.number > 0 then
    for queue in pairs(got.from) do
      count(queue, READY, 0)
      count(queue, RUNNING, 0)
    end
    if history_over() > 0 then
      return nil, settled
    end
  end
  for queue, number in pairs(got.from) do
    count(queue, READY, -number)
    count(queue, RUNNING, number)
  end
  for i, id in ipairs(got.ids) do
    rewrite(id, got.records[i])
  end

  local given, hungry, hints = got.ids, {}, {}
  if ask and #given < ask.slots then
    hungry = names
  elseif ask and #given == ask.wanted then
    hints = names -- there may be more in line, for a session that has nothing to do
  end
  local registered = hungry_for(session)
  for _, list in ipairs({ hungry, hints, registered }) do
    check_hungry(list)
  end
  local tick = not absent[TICKS] and call('ZRANGE', TICKS, 0, 0, 'WITHSCORES')[2]
  local verdicts, lines = as_bytes(settled.verdicts), asks.lines(ask, given, got.from)

  write_plain(session, settled, got)
  if not (registered[1] == hungry[1] and #registered == 1) then
    leave_hungry(session, registered)
  end
  be_hungry(session.id, hungry)
  asks.be_rung(session, ask, lines)
  for _, queue in ipairs(hints) do
    if types[PREFIX .. 'hungry:' .. queue] == 'zset' and call('EXISTS', PREFIX .. 'row:' .. queue) == 1 then
      wake(queue, 1)
    end
  end
  asks.note_exchange(session, request, verdicts, given, hungry, '')
  return {
    string.format('%.0f', now), due and string.format('%.0f', due) or '', verdicts, given, got.records, {},
    tick and string.format('%.0f', tick) or '' }
end

-- Whether an exchange is one of plain names: the keys of their queues are few enough to be looked at.
function asks_plainly(session, ask)
  if session.expired or session.unfinished ~= '' then
    return false
  end
  local names = ask and ask.names or {}
  for _, name in ipairs(names) do
    if is_pattern(name) then
      return false
    end
  end
  return #names <= (ask and ask.round_robin and 1 or HINTS_AT_MOST)
end

end
