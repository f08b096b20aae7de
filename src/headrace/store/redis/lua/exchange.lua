-- exchange: settle, then take, in one step. Marks the session as seen.
--
-- ARGV[2]  session id
-- ARGV[3]  number of the request
-- ARGV[4]  the outcomes: for each H id, d arrival, d token, B kind, B charge, d at or delay, d began and d ended (how many
--          milliseconds ago), H which of these follow (1 at, 2 began, 4 ended are given; 8 H queue, 16 H task, 32 H group,
--          64 H note, 128 I body, 256 I data, 512 I result, 1024 I error)
-- ARGV[5]  spare leases that were started: d arrival each
-- ARGV[6]  empty, or what to take: d slots, d spare, B in turn, and for each queue H name
-- Answers  {now, next due or '', a byte per verdict, {id, ...}, {record, ...}, {position, kind, value, ...} of values in large}
-- Fails    GONE, STALE
--@include prelude job plan session outcome commit

local OK, ALREADY, STALE = 0, 1, 2
local PROMOTED_AT_MOST = 1000
local session = live_session(ARGV[2])
local request = tonumber(ARGV[3])
local is_again = is_repeat(session, request)

-- Without a story this is most of what a busy script does: the numbers come in one go, what is rare comes after them.
local function read_outcomes()
  local outcomes, ids = {}, {}
  local sent, at = ARGV[4], 1
  while at <= #sent do
    local id, arrival, token, kind, charge, when, began, ended, given
    id, arrival, token, kind, charge, when, began, ended, given, at = unpack_from('>Hc0ddBBdddH', sent, at)
    local outcome = { id = id, arrival = arrival, token = token, kind = kind, charge = charge, delay = when }
    if given > 0 then
      if band(given, 1) ~= 0 then outcome.at = when end
      if band(given, 2) ~= 0 then outcome.began = began end
      if band(given, 4) ~= 0 then outcome.ended = ended end
      if given >= 8 then
        if band(given, 8) ~= 0 then outcome.queue, at = unpack_from('>Hc0', sent, at) end
        if band(given, 16) ~= 0 then outcome.task, at = unpack_from('>Hc0', sent, at) end
        if band(given, 32) ~= 0 then outcome.group, at = unpack_from('>Hc0', sent, at) end
        if band(given, 64) ~= 0 then outcome.note, at = unpack_from('>Hc0', sent, at) end
        if band(given, 128) ~= 0 then outcome.body, at = unpack_from('>Ic0', sent, at) end
        if band(given, 256) ~= 0 then outcome.data, at = unpack_from('>Ic0', sent, at) end
        if band(given, 512) ~= 0 then outcome.result, at = unpack_from('>Ic0', sent, at) end
        if band(given, 1024) ~= 0 then outcome.error, at = unpack_from('>Ic0', sent, at) end
      end
    end
    outcomes[#outcomes + 1] = outcome
    ids[#ids + 1] = id
  end
  return outcomes, ids
end

local function settle_all()
  local outcomes, ids = read_outcomes()
  load_many(ids)
  local verdicts = {}
  for i, outcome in ipairs(outcomes) do
    local job = find_job(outcome.id)
    if holds(session, job, outcome.arrival, outcome.token) then
      end_run(session, job, outcome)
      verdicts[i] = OK
    elseif job and job.state ~= RUNNING and job.token == outcome.token and job.arrival == outcome.arrival
      and job.session == session.number then
      verdicts[i] = ALREADY
    else
      verdicts[i] = STALE
    end
  end
  local bytes = {}
  for first = 1, #verdicts, 4000 do
    bytes[#bytes + 1] = string.char(unpack(verdicts, first, math.min(first + 3999, #verdicts)))
  end
  return table.concat(bytes)
end

-- When the earliest scheduled job falls due, if `promoted` of them leave and those of the plan come.
local function next_due(promoted)
  local head = call('ZRANGE', DUE, promoted, promoted, 'WITHSCORES')
  local due = head[2] and tonumber(head[2]) or plan.earliest
  if not due then
    return ''
  end
  return string.format('%.0f', math.min(due, plan.earliest or due))
end

-- What has fallen due gets into the lines of its queues, in bounded steps.
local function promote()
  local members = call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, PROMOTED_AT_MOST)
  local ids = {}
  for i, member in ipairs(members) do
    ids[i] = member:sub(7)
  end
  load_many(ids)
  for i, member in ipairs(members) do
    local job = find_job(ids[i])
    plan.due_out[i] = member
    if job and job.state == SCHEDULED then
      count(job.queue, SCHEDULED, -1)
      stand_in_line(job)
    end
  end
  return #members
end

-- The head of a queue's line as it will be: what stands there, and what this very exchange puts there.
local function head_of_line(queue, wanted)
  local line = call('ZRANGE', PREFIX .. 'line:' .. queue, 0, wanted - 1, 'WITHSCORES')
  local heads = {}
  for i = 1, #line, 2 do
    heads[#heads + 1] = { score = tonumber(line[i + 1]), member = line[i] }
  end
  local entering = plan.enter[queue]
  if entering and entering[1] then
    for i = 1, #entering, 2 do
      heads[#heads + 1] = { score = entering[i], member = entering[i + 1], at = i }
    end
    table.sort(heads, function(a, b)
      if a.score ~= b.score then
        return a.score < b.score
      end
      return a.member < b.member
    end)
  end
  return heads
end

-- Which jobs to hand out, in order.
local function choose(queues, wanted, in_turn)
  local chosen = {}
  if not in_turn then
    for _, queue in ipairs(queues) do
      if #chosen == wanted then
        break
      end
      for _, head in ipairs(head_of_line(queue, wanted - #chosen)) do
        if #chosen == wanted then
          break
        end
        head.queue = queue
        chosen[#chosen + 1] = head
      end
    end
    return chosen
  end
  local lines = {}
  for i, queue in ipairs(queues) do
    lines[i] = head_of_line(queue, wanted)
  end
  for turn = 1, wanted do
    local before = #chosen
    for i, queue in ipairs(queues) do
      local head = lines[i][turn]
      if head and #chosen < wanted then
        head.queue = queue
        chosen[#chosen + 1] = head
      end
    end
    if #chosen == before then
      break
    end
  end
  return chosen
end

local function hand_out(chosen, slots)
  local ids, given, entered = {}, {}, {}
  for i, head in ipairs(chosen) do
    ids[i] = head.member:sub(13)
  end
  load_many(ids)
  for i, head in ipairs(chosen) do
    local queue = head.queue
    local job = find_job(ids[i])
    if head.at then
      entered[queue] = entered[queue] or {}
      entered[queue][head.at] = true
      plan.news[queue] = plan.news[queue] - 1 -- no news to others
    else
      plan.heads[queue] = (plan.heads[queue] or 0) + 1
    end
    if job and job.state == READY then
      job.state = RUNNING
      job.token = job.token + 1
      job.session, job.request, job.started, job.finished = session.number, request, now, 0
      job.flags = with(without(job.flags, SPARE), #given < slots and RUN or RUN + SPARE)
      count(queue, READY, -1)
      count(queue, RUNNING, 1)
      change(job)
      given[#given + 1] = job.id
    end
  end
  for queue, positions in pairs(entered) do
    local rest = {}
    for i = 1, #plan.enter[queue], 2 do
      if not positions[i] then
        rest[#rest + 1] = plan.enter[queue][i]
        rest[#rest + 1] = plan.enter[queue][i + 1]
      end
    end
    plan.enter[queue] = rest
  end
  if given[1] then
    plan.held_in[session.held] = given
  end
  return given
end

local function has_large(job)
  return band(job.flags, LARGE_BODY) ~= 0 or band(job.flags, STORY) ~= 0 and job.told:byte(1) ~= 0
end

local function answer_with(due, verdicts, given)
  local records, large = {}, {}
  for i, id in ipairs(given) do
    local job = plan.jobs[id] or seen[id]
    records[i] = job.record or serialize(job)
    if has_large(job) then
      if band(job.flags, LARGE_BODY) ~= 0 then
        large[#large + 1] = { i, 'b', 'b:' .. id }
      end
      if band(job.flags, STORY) ~= 0 and band(job.told:byte(1), 1) ~= 0 then
        large[#large + 1] = { i, 'd', 'd:' .. id }
      end
    end
  end
  local values = {}
  for _, entry in ipairs(large) do
    values[#values + 1] = entry[1]
    values[#values + 1] = entry[2]
    values[#values + 1] = call('HGET', LARGE, entry[3])
  end
  return { string.format('%.0f', now), due, verdicts, given, records, values }
end

local stamp, pulse = string.format('%.0f', now), string.format('%.0f', steady)

if is_again then
  local good, handed = pcall(cmsgpack.unpack, session.handed)
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

local verdicts = settle_all()
mark_started(session, ARGV[5])
local given, due, hungry, queues, passed_on = {}, nil, {}, {}, {}
if ARGV[6] == '' then
  due = next_due(0)
else
  local slots, spare, in_turn, at = unpack_from('>ddB', ARGV[6])
  while at <= #ARGV[6] do
    queues[#queues + 1], at = unpack_from('>Hc0', ARGV[6], at)
  end
  local promoted = 0
  local head = call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  if head[2] and tonumber(head[2]) <= now then
    promoted = promote()
    due = next_due(promoted)
  else
    due = head[2] and tonumber(head[2]) or plan.earliest
    due = due and string.format('%.0f', math.min(due, plan.earliest or due)) or ''
  end
  local wanted = slots + spare
  given = wanted > 0 and hand_out(choose(queues, wanted, in_turn == 1), slots) or given
  if #given < slots then
    hungry = queues
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
  if call('EXISTS', PREFIX .. 'line:' .. queue) == 1 then
    wake(queue, 1)
  end
end
call('HSET', session.key, 'seen', pulse, 'seen_at', stamp, 'request', string.format('%.0f', request),
  'answer', verdicts, 'handed', given[1] and cmsgpack.pack(given) or '', 'hungry',
  hungry[1] and cmsgpack.pack(hungry) or '')
return answer_with(due, verdicts, given)
