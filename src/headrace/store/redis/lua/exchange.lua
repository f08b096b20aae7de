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
--@include prelude job session busy quick

local session = live_session(ARGV[2], ARGV[6] == '')
local request = tonumber(ARGV[3])
local is_again = is_repeat(session, request)

if not is_again and ARGV[4] == '' and ARGV[5] == '' and ARGV[6] ~= '' then
  local answer = quick_take(session, request)
  if answer then
    return answer
  end
end
--@include checks plan more schedules sorted lanes started outcome ending culprits relations settings stats wake patterns queues commit purge settle take turns

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

-- How many jobs to take, how many more to hold ready, whether queues take turns, and their names. (One local for them all: a
-- script may have 200.)
local ask = { slots = 0, spare = 0, in_turn = false, grace = 0, names = {} }
if ARGV[6] ~= '' then
  local how, at
  ask.slots, ask.spare, how, at = unpack_from('>ddB', ARGV[6])
  ask.in_turn = band(how, 1) == 1
  if band(how, 2) ~= 0 then
    ask.grace, at = unpack_from('>d', ARGV[6], at)
    checks.integer(ask.grace, 0, LATEST, 'How long it takes to start a job, by session ', ARGV[2])
  end
  while at <= #ARGV[6] do
    ask.names[#ask.names + 1], at = unpack_from('>Hc0', ARGV[6], at)
  end
  if ask.names[1] and ask.names[1]:find('^%[=%x+@%d+$') then -- a list of names, from a place on
    ask.names[1], ask.start = ask.names[1]:match('^(.*)@(%d+)$')
  end
  if not (ask.slots >= 0 and ask.spare >= 0 and ask.slots + ask.spare <= 100000 and ask.slots % 1 == 0 and ask.spare % 1 == 0) then
    checks.refuse('How many jobs to take, and to hold ready, are integers that come to 100,000 at most.')
  end
end

local HINTS_AT_MOST, QUEUES_BESIDES = 100, 100
local stamp = string.format('%.0f', now)

if is_again then
  local good, handed = pcall(cmsgpack.unpack, call('HGET', session.key, 'handed') or '')
  local given = {}
  if good and type(handed) == 'table' then
    load_many(handed)
    for _, id in ipairs(handed) do
      local job = find_job(id)
      if job and job.state == RUNNING and job.session == session.number and job.request == request then
        given[#given + 1] = id
      end
    end
  end
  relations.unfinished = call('EXISTS', PREFIX .. 'releasing') == 1
  local due = ARGV[6] ~= '' and queues.left_by(session).again and stamp or next_due()
  local answer = answer_with(due, session.answer, given, next_tick())
  if not session.expired then
    even_when_full()
    call('HSET', session.key, 'seen', string.format('%.0f', steady), 'seen_at', stamp)
  end
  return answer
end

-- One look tells that nobody here uses more than plain jobs and queues, and that nobody sleeps; else it takes several.
local EXTRA = { PREFIX .. 'releasing', PREFIX .. 'lanes', CONTROL, PATTERNS, EVENTS, SETTINGS, TICKS }
local is_plain
do
  local keys = { WATCHED, unpack(EXTRA) }
  for i = 1, math.min(#ask.names, HINTS_AT_MOST) do
    keys[#keys + 1] = PREFIX .. 'hungry:' .. ask.names[i]
  end
  local nothing_else = call('EXISTS', unpack(keys)) == 0
  is_plain = nothing_else or call('EXISTS', unpack(EXTRA)) == 0
  for _, key in ipairs(nothing_else and keys or is_plain and EXTRA or {}) do
    absent[key] = true
  end
end

local verdicts = settle_all(session, tonumber(ARGV[7]))
mark_started(session, ARGV[5])
local special = not is_plain and call('EXISTS', unpack(EXTRA, 1, 4)) > 0 or rawget(relations, 'write') ~= nil
if special then
  relations.work_off()
else
  slept_on = {}
end
local given, due, hungry, passed_on = {}, nil, {}, {}
if ARGV[6] == '' then
  due = next_due()
else
  for _, name in ipairs(ask.names) do
    special = special or is_pattern(name)
  end
  due = next_due()
  if due ~= '' and tonumber(due) <= now then
    promote(ask.names)
    due = next_due()
  end
  local wanted = ask.slots + ask.spare
  local from_where, left = ask.names, {}
  if special then
    local before, asked = queues.left_by(session), nil
    local walk = queues.meant_by(ask.names, wanted + QUEUES_BESIDES, before.place, tonumber(ask.start))
    from_where = walk.queues
    given, asked = turns.hand_out_in_turn(session, request, from_where, ask.slots, ask.spare, ask.in_turn, ask.grace)
    due = next_due()
    left.place = queues.place_after(walk, asked, #given >= ask.slots)
    left.told = walk.from and (before.told or queues.has_been_told(session))
    plan.look_again = plan.look_again or left.place ~= nil or left.told or walk.cut
  elseif wanted > 0 then
    local ids, from = choose(ask.names, wanted, ask.in_turn)
    given = hand_out(session, request, ids, from, ask.slots)
  end
  if #given < ask.slots then
    hungry = ask.names
    left.again = plan.look_again or nil
    due = left.again and stamp or due
  elseif #given == wanted or special then
    -- There may be more in line: pass the hint on to somebody who has nothing to do.
    local few = math.ceil(COMPARED_AT_MOST / math.max(#sleepers_patterns(), 1))
    for i = 1, math.min(#from_where, HINTS_AT_MOST, few) do
      local queue = from_where[i]
      for _, name in ipairs(listening_to(queue)) do
        if check_type(PREFIX .. 'hungry:' .. name, 'zset') then
          passed_on[#passed_on + 1] = { queue, name }
        end
      end
    end
  end
  session.unfinished = (left.again or left.place) and cmsgpack.pack(left) or ''
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

-- Who is hungry is told of news; who is not must not be, for a hint goes to one only.
local registered = hungry_for(session)
check_hungry(hungry)
for _, queue in ipairs(registered) do
  check_type(PREFIX .. 'hungry:' .. queue, 'zset')
end

local tick = next_tick()
if special then
  queues.tell_of_room()
end
commit(function()
  even_when_full()
  for _, queue in ipairs(registered) do
    call('ZREM', PREFIX .. 'hungry:' .. queue, session.id)
  end
end)
be_hungry(session.id, hungry)
for _, hint in ipairs(passed_on) do
  if call('EXISTS', PREFIX .. 'row:' .. hint[1], PREFIX .. 'line:' .. hint[1]) > 0 then
    wake(hint[2], 1)
  end
end
if not session.expired then
  call('HSET', session.key, 'seen', string.format('%.0f', steady), 'seen_at', stamp)
end
call('HSET', session.key, 'request', string.format('%.0f', request),
  'answer', verdicts, 'handed', given[1] and cmsgpack.pack(given) or '', 'hungry',
  hungry[1] and cmsgpack.pack(hungry) or '', 'unfinished', session.unfinished)
return answer_with(due, verdicts, given, tick)
