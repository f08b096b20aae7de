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
-- Answers  {now, next due or '', a byte per verdict, {id, ...}, {record, ...}, {position, kind, value, ...} of values in large}
-- Fails    GONE, STALE
--@include prelude job plan session outcome wake commit busy purge

local OK, ALREADY, STALE = 0, 1, 2
local PROMOTED_AT_MOST = 1000
local STALE_AT_MOST = 5000
local session = live_session(ARGV[2])
local request = tonumber(ARGV[3])
local is_again = is_repeat(session, request)

-- The outcomes, as lists of what all have, and a table of what only some have.
local function read_outcomes()
  local sent, at, n = ARGV[4], 1, 0
  local ids, arrivals, tokens, kinds, charges, whens, begans, endeds, givens, results, rares =
    {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}
  while at <= #sent do
    n = n + 1
    local given
    ids[n], arrivals[n], tokens[n], kinds[n], charges[n], whens[n], begans[n], endeds[n], given, at =
      unpack_from('>Hc0ddBBdddH', sent, at)
    givens[n] = given
    if given >= 8 then
      local rare = given % 512 >= 8 or given >= 1024
      rare = rare and {} or nil
      rares[n] = rare
      if band(given, 8) ~= 0 then rare.queue, at = unpack_from('>Hc0', sent, at) end
      if band(given, 16) ~= 0 then rare.task, at = unpack_from('>Hc0', sent, at) end
      if band(given, 32) ~= 0 then rare.group, at = unpack_from('>Hc0', sent, at) end
      if band(given, 64) ~= 0 then rare.note, at = unpack_from('>Hc0', sent, at) end
      if band(given, 128) ~= 0 then rare.body, at = unpack_from('>Ic0', sent, at) end
      if band(given, 256) ~= 0 then rare.data, at = unpack_from('>Ic0', sent, at) end
      if band(given, 512) ~= 0 then results[n], at = unpack_from('>Ic0', sent, at) end
      if band(given, 1024) ~= 0 then rare.error, at = unpack_from('>Ic0', sent, at) end
    end
  end
  return ids, arrivals, tokens, kinds, charges, whens, begans, endeds, givens, results, rares
end

local function settle_all()
  local ids, arrivals, tokens, kinds, charges, whens, begans, endeds, givens, results, rares = read_outcomes()
  load_many(ids)
  local plain, before, after = happy_stories(session.name)
  local verdicts, numbers, finished_in, held_out, ended = {}, {}, plan.ended_in[DONE], {}, plan.ended
  plan.held_out[session.held] = held_out
  for i = 1, #ids do
    local id, arrival, token, given, result = ids[i], arrivals[i], tokens[i], givens[i], results[i]
    local record, queue
    if kinds[i] == K_DONE and not rares[i] and charges[i] ~= C_DEFERRAL and plan.jobs[id] == nil
      and not (result and #result > INLINE) then
      local finished = band(given, 4) ~= 0 and math.max(now - endeds[i], 1) or now
      local started = band(given, 2) ~= 0 and math.max(now - begans[i], 1) or nil
      local story = result and before .. pack('>Ic0', #result, result) .. after or plain
      record, queue = done(raw[id], session, arrival, token, charges[i], started, finished, story, result)
      if record then
        rewrite(id, record)
        finished_in[#finished_in + 1] = finished
        finished_in[#finished_in + 1] = id
        held_out[#held_out + 1] = id
        ended[#ended + 1] = id
        numbers[queue] = (numbers[queue] or 0) + 1
        verdicts[i] = OK
      end
    end
    if not record then
      local job = find_job(id)
      if holds(session, job, arrival, token) then
        local outcome = rares[i] or {}
        outcome.kind, outcome.charge, outcome.delay, outcome.result = kinds[i], charges[i], whens[i], result
        outcome.at = band(given, 1) ~= 0 and whens[i] or nil
        outcome.began = band(given, 2) ~= 0 and begans[i] or nil
        outcome.ended = band(given, 4) ~= 0 and endeds[i] or nil
        end_run(session, job, outcome)
        verdicts[i] = OK
      elseif job and job.state ~= RUNNING and job.token == token and job.arrival == arrival
        and job.session == session.number then
        verdicts[i] = ALREADY
      else
        verdicts[i] = STALE
      end
    end
  end
  for queue, number in pairs(numbers) do
    count(queue, RUNNING, -number)
    count(queue, DONE, number)
  end
  if not held_out[1] then
    plan.held_out[session.held] = nil
  end
  local surplus = finished_in[1] and call('ZCARD', ENDED[DONE]) + #finished_in / 2 - (tonumber(ARGV[7]) or math.huge) or 0
  if surplus >= 100 then
    purge(DONE, math.min(surplus, #finished_in + 100))
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

-- The head of a queue's row: what is still there and ready. How many entries that takes, stale ones included.
local function head_of_row(queue, wanted)
  local key, live, upto = PREFIX .. 'row:' .. queue, {}, {}
  local read = 0
  while #live < wanted and read < STALE_AT_MOST do
    local members = call('LRANGE', key, read, read + wanted - #live - 1)
    local asked, ids = wanted - #live, {}
    for i = 1, #members do
      ids[i] = members[i]:sub(13)
    end
    load_many(ids)
    for i = 1, #members do
      local id, member = ids[i], members[i]
      local record = plan.jobs[id] == nil and raw[id]
      if record and record:byte(1) == READY and record:sub(14, 19) == member:sub(1, 6)
        and record:sub(26, 31) == member:sub(7, 12) then
        live[#live + 1] = member
        upto[#live] = read + i
      end
    end
    read = read + #members
    if #members < asked then
      break
    end
  end
  if not live[1] and read > 0 then
    plan.rows[queue] = read -- nothing but stale entries
  end
  return live, upto
end

-- The head of a queue's line as it will be, from three sources that are each in order: the row, the line, and what this very
-- exchange puts there. The members, and for each where it is from: a place in the row, in the line, or in the plan.
local function head_of_line(queue, wanted)
  local key, entering = PREFIX .. 'line:' .. queue, plan.enter[queue]
  local row, upto = head_of_row(queue, wanted)
  entering = entering and entering[1] and entering
  if not row[1] and not entering then
    return call('ZRANGE', key, 0, wanted - 1), {}, {}
  end
  local line = call('ZRANGE', key, 0, wanted - 1, 'WITHSCORES')
  if not line[1] and not entering then
    return row, upto, {}
  end
  local heads = {}
  for i = 1, #row do
    heads[i] = { score = 0, member = row[i], row = upto[i] }
  end
  for i = 1, #line, 2 do
    heads[#heads + 1] = { score = tonumber(line[i + 1]), member = line[i] }
  end
  for i = 1, entering and #entering or 0, 2 do
    heads[#heads + 1] = { score = entering[i], member = entering[i + 1], at = i }
  end
  table.sort(heads, function(a, b)
    if a.score ~= b.score then
      return a.score < b.score
    end
    if a.member ~= b.member then
      return a.member < b.member
    end
    return not a.row and b.row ~= nil
  end)
  local members, in_row, in_plan = {}, {}, {}
  for i = 1, #heads do
    local n, head = #members + 1, heads[i]
    if n > wanted then
      break
    end
    if members[n - 1] ~= head.member then -- a job revived at once may stand in the line and in the row
      members[n], in_row[n], in_plan[n] = head.member, head.row, head.at
    end
  end
  return members, in_row, in_plan
end

-- Which jobs to hand out, in order: their ids, and the queues they are taken from.
local function choose(queues, wanted, in_turn)
  local ids, from, entered = {}, {}, {}
  local function pick(queue, member, in_row, in_plan)
    ids[#ids + 1] = member:sub(13)
    from[#from + 1] = queue
    if in_row then
      plan.rows[queue] = in_row
    elseif in_plan then
      entered[queue] = entered[queue] or {}
      entered[queue][in_plan] = true
    else
      plan.heads[queue] = (plan.heads[queue] or 0) + 1
    end
  end
  if in_turn then
    local lines, in_row, in_plan = {}, {}, {}
    for i, queue in ipairs(queues) do
      lines[i], in_row[i], in_plan[i] = head_of_line(queue, wanted)
    end
    for turn = 1, wanted do
      local before = #ids
      for i, queue in ipairs(queues) do
        local member = lines[i][turn]
        if member and #ids < wanted then
          pick(queue, member, in_row[i][turn], in_plan[i][turn])
        end
      end
      if #ids == before then
        break
      end
    end
  else
    for _, queue in ipairs(queues) do
      if #ids == wanted then
        break
      end
      local members, in_row, in_plan = head_of_line(queue, wanted - #ids)
      for i = 1, #members do
        pick(queue, members[i], in_row[i], in_plan[i])
      end
    end
  end
  -- What is handed out at once never enters the line, and is no news to others.
  for queue, positions in pairs(entered) do
    local rest = {}
    for i = 1, #plan.enter[queue], 2 do
      if positions[i] then
        plan.news[queue] = plan.news[queue] - 1
      else
        rest[#rest + 1] = plan.enter[queue][i]
        rest[#rest + 1] = plan.enter[queue][i + 1]
      end
    end
    plan.enter[queue] = rest
  end
  return ids, from
end

local function hand_out(ids, from, slots)
  load_many(ids)
  local run = pack(RUN_FORMAT, session.number, request, now, 0)
  local given, numbers = {}, {}
  for i = 1, #ids do
    local id, queue = ids[i], from[i]
    local record = plan.jobs[id] == nil and taken(raw[id], run, #given >= slots)
    if record then
      rewrite(id, record)
      given[#given + 1] = id
      numbers[queue] = (numbers[queue] or 0) + 1
    else
      local job = find_job(id)
      if job and job.state == READY then
        job.state = RUNNING
        job.token = job.token + 1
        job.session, job.request, job.started, job.finished = session.number, request, now, 0
        job.flags = with(without(job.flags, SPARE), #given < slots and RUN or RUN + SPARE)
        change(job)
        given[#given + 1] = id
        numbers[queue] = (numbers[queue] or 0) + 1
      end
    end
  end
  for queue, number in pairs(numbers) do
    count(queue, READY, -number)
    count(queue, RUNNING, number)
  end
  if given[1] then
    plan.held_in[session.held] = given
  end
  return given
end

local function has_large(job)
  return job and (band(job.flags, LARGE_BODY) ~= 0 or band(job.flags, STORY) ~= 0 and job.told:byte(1) ~= 0)
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
  if wanted > 0 then
    local ids, from = choose(queues, wanted, in_turn == 1)
    given = hand_out(ids, from, slots)
  end
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
  if call('EXISTS', PREFIX .. 'row:' .. queue, PREFIX .. 'line:' .. queue) > 0 then
    wake(queue, 1)
  end
end
call('HSET', session.key, 'seen', pulse, 'seen_at', stamp, 'request', string.format('%.0f', request),
  'answer', verdicts, 'handed', given[1] and cmsgpack.pack(given) or '', 'hungry',
  hungry[1] and cmsgpack.pack(hungry) or '')
return answer_with(due, verdicts, given)
