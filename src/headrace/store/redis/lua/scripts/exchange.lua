-- exchange: settle, then take, in one step. Marks the session as seen, unless it has expired.
--
-- ARGV[2]  session id
-- ARGV[3]  number of the request
-- ARGV[4]  the outcomes: for each H id, d arrival, d token, B kind, B charge, d at or delay, d began and d ended (how many
--          milliseconds ago), H which of these follow (1 at, 2 began, 4 ended are given; 8 H queue, 16 H task, 32 H group,
--          64 H note, 128 I body, 256 I data, 512 I result, 1024 I error, 2048 I the jobs to wait for, H id each,
--          4096 I an account of the run, 8192 I the data that the new one is a change of)
-- ARGV[5]  spare leases that were started: d arrival each
-- ARGV[6]  empty, or what to take: d slots, d spare, B 1 round robin, 2 if how many milliseconds a start takes follows (d), 4 if the
--          priority follows (d) above which the session is rung for jobs, and for each queue H name, or a pattern
-- ARGV[7]  how many done jobs are kept at most, in place of what the settings say; may be empty or left out. Those beyond go
--          in small portions here, so that they go as fast as they come
-- Answers  {now, next due or '', a byte per verdict, {id, ...}, {record, ...}, {position, kind, value, ...} of values in large,
--          of more (kind m) and of after (kind a), when the next schedule ticks or ''; and if nothing was found 1 if the session
--          holds nothing, else 0, and how many milliseconds ago there was a sweep, or ''}
-- Fails    GONE, STALE, REFUSED
--@include asks

local session = live_session(ARGV[2], ARGV[6] == '')
local request = tonumber(ARGV[3])
local is_again = is_repeat(session, request)
local ask = asks.read_take(ARGV[6])
if not is_again and ARGV[4] == '' and ARGV[5] == '' and asks.finds_nothing(session, ask) then
  local answer = asks.find_nothing(session, request, ask.names)
  if answer then
    return answer
  end
end
--@include plain

local kept = tonumber(ARGV[7])
local special, settled
if not is_again then
  special = uses_more(ask and ask.names or {}) or ask and any_expired()
  mark_started(session, ARGV[5])
  if not special and asks_plainly(session, ask) and not has_subscribers() then
    local answer
    answer, settled = exchange_plain(session, request, ask, kept)
    if answer then
      return answer
    end
  end
end
--@include take_singly settle commit

local repeat_exchange, exchange_all

do -- only these are names outside: a script may have 200

-- One outcome of a job that has anything special.
local function settle_other(session, verdicts, i, id, arrival, token, outcome)
  local job = find_job(id, nil, arrival)
  if not job or job.token ~= token or job.arrival ~= arrival or job.session ~= session.number then
    verdicts[i] = V_STALE
  elseif job.state ~= RUNNING then
    verdicts[i] = V_ALREADY
  elseif outcome.base and value_of(job, story_of(job), 'data') ~= outcome.base then
    verdicts[i] = V_CHANGED
  else
    verdicts[i] = V_OK
    end_run(session, job, outcome)
  end
end

-- Settles them all, or what is left of them if some are `settled`; a byte per verdict. `kept`: how many done jobs to keep at most, if
-- not as set.
local function settle_all(session, settled, kept)
  for _, outcome in ipairs(settled and settled.others or {}) do
    settle_other(session, unpack(outcome))
  end
  settled = settled or settle_plain(session, ARGV[4], function(...)
    settle_other(session, ...)
  end)
  local finished_in = plan.sorted_in[ENDED[DONE]] or {}
  for i = 1, settled.number do
    local id = settled.done[i]
    finished_in[#finished_in + 1] = settled.scores[i]
    finished_in[#finished_in + 1] = id
    append(plan.held_out, session.held, id)
    plan.ended[#plan.ended + 1] = id
  end
  if finished_in[1] then
    plan.sorted_in[ENDED[DONE]] = finished_in
    local there, coming = call('ZCARD', ENDED[DONE]), #finished_in / 2
    types[ENDED[DONE]] = 'zset' -- or that would have failed
    local surplus, portion = beyond_kept(there, coming, kept or setting('jobs-history-count'))
    local most, over = math.max(2 * coming + 100, portion), history_over()
    if over > 0 then
      purge(DONE, there, most, over)
    elseif surplus >= portion then
      purge_done(math.min(surplus, there), 0, most, portion)
    end
  end
  return as_bytes(settled.verdicts)
end

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
  return job and (band(job.flags, LARGE_BODY + MORE) ~= 0 or band(job.flags, STORY) ~= 0 and job.story:byte(1) ~= 0)
end

local function answer_with(due, verdicts, given, tick)
  local records, values = {}, {}
  local function add(i, kind, value)
    local n = #values
    values[n + 1], values[n + 2], values[n + 3] = i, kind, value
  end
  for i, id in ipairs(given) do
    local job = plan.jobs[id] or seen[id] -- what was never parsed has nothing large
    records[i] = job and (job.record or serialize(job)) or raw[id]
    if has_large(job) then
      if band(job.flags, LARGE_BODY) ~= 0 then
        add(i, 'b', call('HGET', LARGE, 'b:' .. id))
      end
      if band(job.flags, STORY) ~= 0 and band(job.story:byte(1), 1) ~= 0 then
        add(i, 'd', call('HGET', LARGE, 'd:' .. id))
      end
      if band(job.flags, MORE) ~= 0 then
        add(i, 'm', packed_more(id))
        if more_of(job).after then
          add(i, 'a', call('HGET', AFTER, id))
        end
      end
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
-- next job falls due, or '' ; hungry: the names that the session waits for; hints: see `hints_for`; from: the queues, as keys}.
local function take_all(session, request, ask, special)
  local got = { given = {}, due = next_due(), hungry = {}, hints = {} }
  if got.due ~= '' and tonumber(got.due) <= now then
    promote(ask.names)
    got.due = next_due()
  end
  local from_where, left = ask.names, {}
  if special then
    local before = queues.left_by(session)
    local walk = queues.meant_by(ask.names, ask.wanted + QUEUES_BESIDES, before.place, tonumber(ask.start))
    from_where = walk.queues
    got.given, got.from = singly.hand_out(session, request, from_where, ask.slots, ask.spare, ask.round_robin, ask.grace)
    if singly.failed then
      relations.work_off() -- it has failed jobs that others may come after
    end
    got.due = next_due()
    left.place = queues.place_after(walk, got.from, #got.given >= ask.slots)
    left.news = walk.from and (before.news or queues.may_have_missed_news(session))
    plan.look_again = plan.look_again or left.place ~= nil or left.news or walk.cut
  elseif ask.wanted > 0 then
    local ids, from = choose(ask.names, ask.wanted, ask.round_robin)
    got.given, got.from = hand_out(session, request, ids, from, ask.slots)
  end
  if got.given[1] then
    plan.held_in[session.held] = got.given
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
  special = special or rawget(relations, 'write') ~= nil or plan.index.expiring ~= nil
  if special then
    work_off()
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
  local tick, lines = next_tick(), asks.lines(ask, got.given, got.from)
  if special then
    queues.tell_of_room()
  end
  commit(function()
    even_when_full()
    leave_hungry(session, registered)
  end)
  be_hungry(session.id, got.hungry)
  asks.be_rung(session, ask, lines)
  for _, hint in ipairs(got.hints) do
    if call('EXISTS', PREFIX .. 'row:' .. hint[1], PREFIX .. 'line:' .. hint[1]) > 0 then
      wake(hint[2], 1)
    end
  end
  asks.note_exchange(session, request, verdicts, got.given, got.hungry, session.unfinished)
  return answer_with(got.due, verdicts, got.given, tick)
end

end

if is_again then
  return repeat_exchange(session, request, ask)
end
return exchange_all(session, request, ask)
