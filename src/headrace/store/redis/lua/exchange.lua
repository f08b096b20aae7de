-- exchange: settle, then take, in one step. Marks the session as seen, unless it has expired.
--
-- ARGV[2]  session id
-- ARGV[3]  number of the request
-- ARGV[4]  the outcomes: for each H id, d arrival, d token, B kind, B charge, d at or delay, d began and d ended (how many
--          milliseconds ago), H which of these follow (1 at, 2 began, 4 ended are given; 8 H queue, 16 H task, 32 H group,
--          64 H note, 128 I body, 256 I data, 512 I result, 1024 I error, 2048 I msgpack list of the jobs to wait for)
-- ARGV[5]  spare leases that were started: d arrival each
-- ARGV[6]  empty, or what to take: d slots, d spare, B 1 in turn, 2 if how many milliseconds a start takes follows (d), and for
--          each queue H name, or a pattern
-- ARGV[7]  how many done jobs are kept at most, in place of what the settings say; may be empty or left out. Those beyond go
--          in small portions here, so that they go as fast as they come
-- Answers  {now, next due or '', a byte per verdict, {id, ...}, {record, ...}, {position, kind, value, ...} of values in large,
--          of more (kind m) and of after (kind a), when the next schedule ticks or ''}
-- Fails    GONE, STALE, REFUSED
--@include prelude job settings stats session wake checks plain

local HINTS_AT_MOST, QUEUES_BESIDES = 100, 100
local RELEASING, LANES = PREFIX .. 'releasing', PREFIX .. 'lanes'
local beyond_kept, read_take, uses_more, leave_hungry, note_exchange, history_over, exchange_plain, asks_plainly

do -- only these are names outside: a script may have 200

-- Done jobs beyond the number to keep go when they are worth a step, and then faster than they come. How many there are beyond,
-- and how many are worth a step.
function beyond_kept(there, coming, kept)
  return there + coming - kept, math.floor(math.min(math.max(kept / 50, 100), 1000))
end

-- What to take: how many jobs, how many more to hold ready, whether queues take turns, how long a worker needs to start a job, and
-- the names of queues. Nil: nothing.
function read_take(sent)
  if sent == '' then
    return nil
  end
  local ask = { grace = 0, names = {} }
  local how, at
  ask.slots, ask.spare, how, at = unpack_from('>ddB', sent)
  ask.in_turn = band(how, 1) == 1
  if band(how, 2) ~= 0 then
    ask.grace, at = unpack_from('>d', sent, at)
    checks.integer(ask.grace, 0, LATEST, 'How long it takes to start a job, by session ', ARGV[2])
  end
  while at <= #sent do
    ask.names[#ask.names + 1], at = unpack_from('>Hc0', sent, at)
  end
  if ask.names[1] and ask.names[1]:find('^%[=%x+@%d+$') then -- a list of names, from a place on
    ask.names[1], ask.start = ask.names[1]:match('^(.*)@(%d+)$')
  end
  if not (ask.slots >= 0 and ask.spare >= 0 and ask.slots + ask.spare <= 100000 and ask.slots % 1 == 0 and ask.spare % 1 == 0) then
    checks.refuse('How many jobs to take, and to hold ready, are integers that come to 100,000 at most.')
  end
  ask.wanted = ask.slots + ask.spare
  return ask
end


-- Whether lanes, limits, patterns or dependencies may have a say. One look tells that nobody here uses more than plain jobs and
-- queues, and that nobody sleeps; else it takes some more. Which of the keys are absent is known then.
function uses_more(names)
  local keys = { RELEASING, LANES, CONTROL, PATTERNS, EVENTS, SETTINGS, TICKS, WATCHED }
  for i = 1, math.min(#names, HINTS_AT_MOST) do
    keys[#keys + 1] = PREFIX .. 'hungry:' .. names[i]
    keys[#keys + 1] = PREFIX .. 'line:' .. names[i]
  end
  for _, number in ipairs({ #keys, 7, 4 }) do
    if call('EXISTS', unpack(keys, 1, number)) == 0 then
      for i = 1, number do
        absent[keys[i]] = true
      end
      return false
    end
  end
  return true
end

-- Who is hungry is told of news; who is not must not be, for a hint goes to one only.
function leave_hungry(session, names)
  for _, name in ipairs(names) do
    call('ZREM', PREFIX .. 'hungry:' .. name, session.id)
  end
end

-- The end of every exchange: what a repetition of it is answered with, and that the session has been seen.
function note_exchange(session, request, verdicts, given, hungry, unfinished)
  local values = { 'request', string.format('%.0f', request), 'answer', verdicts,
    'handed', given[1] and cmsgpack.pack(given) or '', 'hungry', hungry[1] and cmsgpack.pack(hungry) or '',
    'unfinished', unfinished }
  if not session.expired then
    values[11], values[12], values[13], values[14] = 'seen', string.format('%.0f', steady), 'seen_at', string.format('%.0f', now)
  end
  call('HSET', session.key, unpack(values))
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

-- Writes what plain jobs need. The first write takes no memory, so that a full server lets all of them through; and nobody has
-- looked at the type of what it is done to: it is refused if that is wrong.
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
    tell_watchers(settled.done)
  end
end

-- An exchange of nothing but plain jobs: its answer. Nil: something is special, and nothing has been written; and what has been
-- settled so far. `others` in there are the outcomes that have not been: what `settle_other` is called with.
function exchange_plain(session, request, ask, kept)
  local others, names = {}, ask and ask.names or {}
  local settled = settle_plain(session, ARGV[4], function(...)
    others[#others + 1] = { ... }
  end)
  settled.others = others
  local due = call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
  local special = others[1] or ask and due and tonumber(due) <= now
  for _, name in ipairs(names) do
    special = special or check_type(PREFIX .. 'line:' .. name, 'zset')
  end
  local got = not special and (ask and take_plain(session, request, ask) or not ask and { ids = {}, records = {}, from = {} })
  if not got then
    return nil, settled
  end
  if settled.number > 0 then
    local there = call('ZCARD', ENDED[DONE])
    local surplus, step = beyond_kept(there, settled.number, kept or setting('jobs-history-count'))
    for queue in pairs(got.from) do
      count(queue, READY, 0)
      count(queue, RUNNING, 0)
    end
    if surplus >= step or history_over() > 0 then
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
    hints = names -- there may be more in line: for somebody who has nothing to do
  end
  local registered = hungry_for(session)
  for _, list in ipairs({ hungry, hints, registered }) do
    check_hungry(list)
  end
  local tick = not absent[TICKS] and call('ZRANGE', TICKS, 0, 0, 'WITHSCORES')[2]
  local verdicts = as_bytes(settled.verdicts)

  write_plain(session, settled, got)
  if not (registered[1] == hungry[1] and #registered == 1) then
    leave_hungry(session, registered)
  end
  be_hungry(session.id, hungry)
  for _, queue in ipairs(hints) do
    if types[PREFIX .. 'hungry:' .. queue] == 'zset' and call('EXISTS', PREFIX .. 'row:' .. queue) == 1 then
      wake(queue, 1)
    end
  end
  note_exchange(session, request, verdicts, given, hungry, '')
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
  return #names <= (ask and ask.in_turn and 1 or HINTS_AT_MOST)
end

end

local session = live_session(ARGV[2], ARGV[6] == '')
local request = tonumber(ARGV[3])
local is_again = is_repeat(session, request)
local ask = read_take(ARGV[6])
local kept = tonumber(ARGV[7])
local special, settled
if not is_again then
  special = uses_more(ask and ask.names or {})
  mark_started(session, ARGV[5])
  if not special and asks_plainly(session, ask) and not somebody_listens() then
    local answer
    answer, settled = exchange_plain(session, request, ask, kept)
    if answer then
      return answer
    end
  end
end
--@include plan more schedules sorted lanes outcome ending culprits relations patterns queues commit purge settle take turns

local repeat_exchange, exchange_all

do -- only these are names outside: a script may have 200

-- When the earliest scheduled job falls due, if those that are promoted leave and those of the plan come. At once, if there is more
-- to be worked off.
local function next_due()
  if rawget(relations, 'unfinished') then
    return string.format('%.0f', now)
  end
  local due, promoted = plan.earliest or math.huge, plan.promoted
  local heads = call('ZRANGE', DUE, 0, promoted.number, 'WITHSCORES')
  for i = 1, #heads, 2 do
    if promoted.heads[heads[i]] == nil then
      due = math.min(due, tonumber(heads[i + 1]))
      break
    end
  end
  for _, head in pairs(promoted.heads) do
    due = math.min(due, head or due)
  end
  return due < math.huge and string.format('%.0f', due) or ''
end

local function has_large(job)
  return job and (band(job.flags, LARGE_BODY + MORE) ~= 0 or band(job.flags, STORY) ~= 0 and job.told:byte(1) ~= 0)
end

local function answer_with(due, verdicts, given, tick)
  local records, large = {}, {}
  for i, id in ipairs(given) do
    local job = plan.jobs[id] or seen[id] -- what was never parsed has nothing large
    records[i] = job and (job.record or serialize(job)) or raw[id]
    if has_large(job) then
      if band(job.flags, LARGE_BODY) ~= 0 then
        large[#large + 1] = { i, 'b', 'b:' .. id }
      end
      if band(job.flags, STORY) ~= 0 and band(job.told:byte(1), 1) ~= 0 then
        large[#large + 1] = { i, 'd', 'd:' .. id }
      end
      if band(job.flags, MORE) ~= 0 then
        large[#large + 1] = { i, 'm', id }
        if more_of(job).after then
          large[#large + 1] = { i, 'a', id }
        end
      end
    end
  end
  local values = {}
  for _, entry in ipairs(large) do
    values[#values + 1] = entry[1]
    values[#values + 1] = entry[2]
    if entry[2] == 'm' then
      values[#values + 1] = packed_more(entry[3])
    else
      values[#values + 1] = call('HGET', entry[2] == 'a' and AFTER or LARGE, entry[3])
    end
  end
  return { string.format('%.0f', now), due, verdicts, given, records, values, tick and string.format('%.0f', tick) or '' }
end

-- A request that has been answered before gets the same answer: what it handed out and is still held.
function repeat_exchange(session, request, ask)
  local good, handed = pcall(cmsgpack.unpack, call('HGET', session.key, 'handed') or '')
  local given, stamp = {}, string.format('%.0f', now)
  if good and type(handed) == 'table' then
    load_many(handed)
    for _, id in ipairs(handed) do
      local job = find_job(id)
      if job and job.state == RUNNING and job.session == session.number and job.request == request then
        given[#given + 1] = id
      end
    end
  end
  relations.unfinished = call('EXISTS', RELEASING) == 1
  local due = ask and queues.left_by(session).again and stamp or next_due()
  local answer = answer_with(due, session.answer, given, next_tick())
  if not session.expired then
    even_when_full()
    call('HSET', session.key, 'seen', string.format('%.0f', steady), 'seen_at', stamp)
  end
  return answer
end

-- There may be more in line than was taken: for sessions that have nothing to do. {queue, name that they are registered under} each.
local function hints_for(queues_asked)
  local hints, few = {}, math.ceil(COMPARED_AT_MOST / math.max(#sleepers_patterns(), 1))
  for i = 1, math.min(#queues_asked, HINTS_AT_MOST, few) do
    local queue = queues_asked[i]
    for _, name in ipairs(listening_to(queue)) do
      if check_type(PREFIX .. 'hungry:' .. name, 'zset') then
        hints[#hints + 1] = { queue, name }
      end
    end
  end
  return hints
end

-- What is large is read at the end, when nothing may fail any more.
local function check_large(given)
  local any_large = false
  for _, id in ipairs(given) do
    local job = plan.jobs[id]
    if has_large(job) then
      any_large = true
      more_of(job)
    end
  end
  if any_large then
    check_type(LARGE, 'hash')
    check_type(MORE_KEY, 'hash')
    check_type(AFTER, 'hash')
  end
end

-- Takes what is asked for. `special`: lanes, limits, patterns or dependencies may have a say. Answers {given: the ids; due: when the
-- next job falls due, or '' ; hungry: the names that the session waits for; hints: see `hints_for`}.
local function take_all(session, request, ask, special)
  local got = { given = {}, due = next_due(), hungry = {}, hints = {} }
  if got.due ~= '' and tonumber(got.due) <= now then
    promote(ask.names)
    got.due = next_due()
  end
  local from_where, left = ask.names, {}
  if special then
    local before, asked = queues.left_by(session), nil
    local walk = queues.meant_by(ask.names, ask.wanted + QUEUES_BESIDES, before.place, tonumber(ask.start))
    from_where = walk.queues
    got.given, asked = turns.hand_out_in_turn(session, request, from_where, ask.slots, ask.spare, ask.in_turn, ask.grace)
    got.due = next_due()
    left.place = queues.place_after(walk, asked, #got.given >= ask.slots)
    left.told = walk.from and (before.told or queues.has_been_told(session))
    plan.look_again = plan.look_again or left.place ~= nil or left.told or walk.cut
  elseif ask.wanted > 0 then
    local ids, from = choose(ask.names, ask.wanted, ask.in_turn)
    got.given = hand_out(session, request, ids, from, ask.slots)
  end
  if #got.given < ask.slots then
    got.hungry = ask.names
    left.again = plan.look_again or nil
    got.due = left.again and string.format('%.0f', now) or got.due
  elseif #got.given == ask.wanted or special then
    got.hints = hints_for(from_where)
  end
  session.unfinished = (left.again or left.place) and cmsgpack.pack(left) or ''
  check_large(got.given)
  return got
end

-- The long way: for jobs, queues and stores that have anything special.
function exchange_all(session, request, ask)
  local verdicts = settle_all(session, settled, kept)
  special = special or rawget(relations, 'write') ~= nil
  if special then
    relations.work_off()
  else
    slept_on = {}
  end
  for _, name in ipairs(ask and ask.names or {}) do
    special = special or is_pattern(name)
  end
  local got = ask and take_all(session, request, ask, special) or { given = {}, due = next_due(), hungry = {}, hints = {} }
  local registered = hungry_for(session)
  check_hungry(got.hungry)
  for _, queue in ipairs(registered) do
    check_type(PREFIX .. 'hungry:' .. queue, 'zset')
  end
  local tick = next_tick()
  if special then
    queues.tell_of_room()
  end
  commit(function()
    even_when_full()
    leave_hungry(session, registered)
  end)
  be_hungry(session.id, got.hungry)
  for _, hint in ipairs(got.hints) do
    if call('EXISTS', PREFIX .. 'row:' .. hint[1], PREFIX .. 'line:' .. hint[1]) > 0 then
      wake(hint[2], 1)
    end
  end
  note_exchange(session, request, verdicts, got.given, got.hungry, session.unfinished)
  return answer_with(got.due, verdicts, got.given, tick)
end

end

if is_again then
  return repeat_exchange(session, request, ask)
end
return exchange_all(session, request, ask)
