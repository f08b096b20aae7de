-- exchange: settle, then take, in one step. Marks the session as seen.
--
-- ARGV[2]  session id
-- ARGV[3]  number of the request
-- ARGV[4]  the outcomes: for each H id, d arrival, d token, B kind, B charge, d at or delay, d began and d ended (how many
--          milliseconds ago), H which of these follow (1 at, 2 began, 4 ended are given; 8 H queue, 16 H task, 32 H group,
--          64 H note, 128 I body, 256 I data, 512 I result, 1024 I error)
-- ARGV[5]  spare leases that were started: d arrival each
-- ARGV[6]  empty, or what to take: d slots, d spare, B in turn, and for each queue H name
-- ARGV[7]  how many done jobs are kept at most; those beyond go in small portions here, so that they go as fast as they come
-- Answers  {now, next due or '', a byte per verdict, {id, ...}, {record, ...}, {position, kind, value, ...} of values in large,
--          and of more (kind m)}
-- Fails    GONE, STALE
--@include prelude job session busy quick

local session = live_session(ARGV[2])
local request = tonumber(ARGV[3])
local is_again = is_repeat(session, request)

if not is_again and ARGV[4] == '' and ARGV[5] == '' and ARGV[6] ~= '' then
  local answer = quick_take(session, request)
  if answer then
    return answer
  end
end
--@include plan more started outcome wake commit purge settle take

-- When the earliest scheduled job falls due, if `promoted` of them leave and those of the plan come.
local function next_due(promoted)
  local head = call('ZRANGE', DUE, promoted, promoted, 'WITHSCORES')
  local due = head[2] and tonumber(head[2]) or plan.earliest
  if not due then
    return ''
  end
  return string.format('%.0f', math.min(due, plan.earliest or due))
end

local function has_large(job)
  return job and (band(job.flags, LARGE_BODY + MORE) ~= 0 or band(job.flags, STORY) ~= 0 and job.told:byte(1) ~= 0)
end

local function answer_with(due, verdicts, given)
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
      end
    end
  end
  local values = {}
  for _, entry in ipairs(large) do
    values[#values + 1] = entry[1]
    values[#values + 1] = entry[2]
    values[#values + 1] = entry[2] == 'm' and packed_more(entry[3]) or call('HGET', LARGE, entry[3])
  end
  return { string.format('%.0f', now), due, verdicts, given, records, values }
end

local stamp, pulse = string.format('%.0f', now), string.format('%.0f', steady)

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
  local answer = answer_with(next_due(0), session.answer, given)
  even_when_full()
  call('HSET', session.key, 'seen', pulse, 'seen_at', stamp)
  return answer
end

local verdicts = settle_all(session, tonumber(ARGV[7]) or math.huge)
mark_started(session, ARGV[5])
local given, due, hungry, queues, passed_on = {}, nil, {}, {}, {}
if ARGV[6] == '' then
  due = next_due(0)
else
  local slots, spare, in_turn, at = unpack_from('>ddB', ARGV[6])
  while at <= #ARGV[6] do
    queues[#queues + 1], at = unpack_from('>Hc0', ARGV[6], at)
  end
  due = next_due(0)
  if due ~= '' and tonumber(due) <= now then
    due = next_due(promote())
  end
  local wanted = slots + spare
  if wanted > 0 then
    local ids, from = choose(queues, wanted, in_turn == 1)
    given = hand_out(session, request, ids, from, slots)
  end
  if #given < slots then
    hungry = queues
    plan.tell[session.id] = plan.look_again or nil
  elseif #given == wanted then
    -- There may be more in line: pass the hint on to somebody who has nothing to do.
    for _, queue in ipairs(queues) do
      if check_type(PREFIX .. 'hungry:' .. queue, 'zset') then
        passed_on[#passed_on + 1] = queue
      end
    end
  end
  for _, id in ipairs(given) do
    if has_large(plan.jobs[id]) then
      check_type(LARGE, 'hash')
      check_type(MORE_KEY, 'hash')
      break
    end
  end
end

-- Who is hungry is told of news; who is not must not be, for a hint goes to one only.
local registered = hungry_for(session)
for _, queue in ipairs(hungry) do
  check_type(PREFIX .. 'hungry:' .. queue, 'zset')
end
for _, queue in ipairs(registered) do
  check_type(PREFIX .. 'hungry:' .. queue, 'zset')
end

commit(function()
  even_when_full()
  for _, queue in ipairs(registered) do
    call('ZREM', PREFIX .. 'hungry:' .. queue, session.id)
  end
end)
for _, queue in ipairs(hungry) do
  call('ZADD', PREFIX .. 'hungry:' .. queue, now, session.id)
  call('PEXPIRE', PREFIX .. 'hungry:' .. queue, 60000)
end
for _, queue in ipairs(passed_on) do
  if call('EXISTS', PREFIX .. 'row:' .. queue, PREFIX .. 'line:' .. queue) > 0 then
    wake(queue, 1)
  end
end
call('HSET', session.key, 'seen', pulse, 'seen_at', stamp, 'request', string.format('%.0f', request),
  'answer', verdicts, 'handed', given[1] and cmsgpack.pack(given) or '', 'hungry',
  hungry[1] and cmsgpack.pack(hungry) or '')
return answer_with(due, verdicts, given)
