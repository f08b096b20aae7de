-- Taking: what is due, which job stands where, what is handed out. The second half of an exchange.
--@include plain admission queues

local PROMOTED_AT_MOST = 1000
local STALE_AT_MOST = 5000

local promote
do

-- The queues of which jobs have fallen due: those that are taken from, and others.
local function queues_due(names)
  local listed, globs, own, others = {}, {}, {}, {}
  for _, name in ipairs(names) do
    if is_pattern(name) then
      globs[#globs + 1] = name
    else
      listed[name] = true
    end
  end
  local found = call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, PROMOTED_AT_MOST)
  for _, pattern in ipairs(globs) do
    patterns.learn(pattern, found)
  end
  for _, queue in ipairs(found) do
    local is_own = listed[queue]
    for i = 1, is_own == nil and #globs or 0 do
      is_own = is_own or patterns.matches(globs[i], queue)
    end
    local list = is_own and own or others
    list[#list + 1] = queue
    listed[queue] = nil
  end
  if #found == PROMOTED_AT_MOST then
    -- There are others that are due, and some of them may be ours.
    local rest = {}
    for name in pairs(listed) do
      rest[#rest + 1] = name
    end
    for i, due in ipairs(read_many('ZMSCORE', DUE, rest)) do
      own[#own + 1] = due and tonumber(due) <= now and rest[i] or nil
    end
    local is_listed = {}
    for _, queue in ipairs(own) do
      is_listed[queue] = true
    end
    for _, pattern in ipairs(globs) do
      local list = patterns.list_asked_for(pattern)
      for _, entry in ipairs(list and patterns.listed_in(list, DUE, now, 0, PROMOTED_AT_MOST) or {}) do
        own[#own + 1] = not is_listed[entry[2]] and entry[2] or nil
      end
    end
  end
  return own, others
end

-- What has fallen due gets into the lines of its queues, in bounded steps: first that of the queues that are taken from. Each queue
-- gets its share of a step, so that none waits behind what another has plenty of.
function promote(names)
  local members, from, ids, left = {}, {}, {}, PROMOTED_AT_MOST
  for _, queues in ipairs({ queues_due(names) }) do
    for i = 1, left > 0 and #queues or 0 do
      local queue, share, head = queues[i], math.ceil(left / (#queues - i + 1)), false
      local found = call('ZRANGE', PREFIX .. 'due:' .. queue, 0, share, 'WITHSCORES')
      for j = 1, #found, 2 do
        if tonumber(found[j + 1]) > now or j > 2 * share then
          head = tonumber(found[j + 1])
          break
        end
        members[#members + 1], from[#from + 1], ids[#ids + 1] = found[j], queue, found[j]:sub(7)
        left = left - 1
      end
      plan.promoted.number, plan.promoted.heads[queue] = plan.promoted.number + 1, head
      plan.due_out[queue] = plan.due_out[queue] or {}
    end
  end
  load_many(ids)
  for i, member in ipairs(members) do
    local job = find_job(ids[i], from[i], #member > 6 and unpack_from('>I6', member) or nil)
    if not plan.fresh[member] then
      append(plan.due_out, from[i], member)
    end
    if job and job.state == SCHEDULED and job.due <= now then
      count(job.queue, SCHEDULED, -1)
      stand_in_line(job)
    end
  end
end

end

-- A queue's row from a place on (0: its head, or behind what has been taken): what is still there and ready. How many entries that
-- takes, stale ones included; of these an exchange skips only so many. Also the ids, and up to where it was read; nil: to its end.
local function head_of_row(queue, wanted, from)
  local key, live, upto, chosen, n = PREFIX .. 'row:' .. queue, {}, {}, {}, 0
  local read, more = from or 0, true
  while more and n < wanted and plan.skipped < STALE_AT_MOST do
    local asked, ids, before = wanted - n, {}, n
    local members = call('LRANGE', key, read, read + asked - 1)
    for i = 1, #members do
      ids[i] = members[i]:sub(13)
    end
    load_many(ids)
    for i = 1, #members do
      local id = ids[i]
      if plan.jobs[id] == nil and stands(members[i], raw[id]) then
        n = n + 1
        live[n], upto[n], chosen[n] = members[i], read + i, id
      elseif raw[id] and (#raw[id] < HEAD_SIZE or raw[id]:byte(1) > CANCELLED) then
        find_job(id, queue, #members[i] > 12 and unpack_from('>xxxxxxI6', members[i]) or nil) -- not stale, but damaged
      end
    end
    read, more, plan.skipped = read + #members, #members == asked, plan.skipped + #members - (n - before)
  end
  if n == 0 and read > 0 then
    plan.rows[queue] = read -- nothing but stale entries
  end
  if more and n < wanted then
    plan.look_again = true
  end
  return live, upto, chosen, more and read or nil
end

-- How many of each queue's line to look at in a round robin: some more than its share. A queue that has more is read again.
local function share_of(wanted, number)
  return math.min(wanted, math.max(8, math.ceil(2 * wanted / number)))
end

-- The head of a queue's line as it will be, from three sources that are each in order: the row, the line, and what this very
-- exchange puts there. The members, and for each where it is from: a place in the row, in the line, or in the plan. If all are
-- from the row, also their ids.
local function head_of_line(queue, wanted)
  local key, entering = PREFIX .. 'line:' .. queue, plan.enter[queue]
  local row, upto, ids = head_of_row(queue, wanted)
  entering = entering and entering[1] and entering
  if not row[1] and not entering then
    return call('ZRANGE', key, 0, wanted - 1), {}, {}
  end
  local line = call('ZRANGE', key, 0, wanted - 1, 'WITHSCORES')
  if not line[1] and not entering then
    return row, upto, {}, ids
  end
  local others = {} -- {score, member, place in the plan} each
  for i = 1, #line, 2 do
    others[#others + 1] = { tonumber(line[i + 1]), line[i] }
  end
  if entering then
    for i = 1, #entering, 2 do
      others[#others + 1] = { entering[i], entering[i + 1], i }
    end
    table.sort(others, sorted.before)
  end
  local members, in_row, in_plan = {}, {}, {}
  local r, o = 1, 1
  while #members < wanted and (row[r] or others[o]) do
    local n, mine, other = #members + 1, row[r], others[o]
    if mine and other and other[1] == 0 and other[2] == mine then
      r = r + 1 -- a job revived at once may stand in both
    elseif mine and (not other or other[1] > 0 or other[1] == 0 and sorted.before({ 0, mine }, other)) then
      members[n], in_row[n] = mine, upto[r]
      r = r + 1
    else
      members[n], in_plan[n] = other[2], other[3]
      o = o + 1
    end
  end
  return members, in_row, in_plan
end

-- Which jobs to hand out, in order: their ids, and the queues they are taken from.
local function choose(queues, wanted, round_robin)
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
  if round_robin then
    local lines, in_row, in_plan = {}, {}, {}
    local share, read, found, full = share_of(wanted, #queues), 0, 0, true
    while full and found < wanted do
      found, full = 0, false
      for i, queue in ipairs(queues) do
        if not lines[i] or #lines[i] == read then
          lines[i], in_row[i], in_plan[i] = head_of_line(queue, share)
        end
        found, full = found + #lines[i], full or #lines[i] == share and share < wanted
      end
      read, share = share, math.min(2 * share, wanted)
    end
    for place = 1, wanted do
      local before = #ids
      for i, queue in ipairs(queues) do
        local member = lines[i][place]
        if member and #ids < wanted then
          pick(queue, member, in_row[i][place], in_plan[i][place])
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
      local n = #ids
      local members, in_row, in_plan, in_row_only = head_of_line(queue, wanted - n)
      if in_row_only then
        plan.rows[queue] = in_row[#members]
        for i = 1, #members do
          ids[n + i], from[n + i] = in_row_only[i], queue
        end
      else
        for i = 1, #members do
          pick(queue, members[i], in_row[i], in_plan[i])
        end
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

local function begin_run(session, request, job, spare)
  job.state = RUNNING
  job.token = job.token + 1
  job.session, job.request, job.started, job.finished = session.number, request, now, 0
  job.flags = with(without(job.flags, SPARE), spare and RUN + SPARE or RUN)
  if more_of(job).expires then
    expiring.stop(job)
  end
  change(job)
  happened(job, 'started', '', session.name)
end

-- True if it could be handed out. `run` is the bytes of the run, the same for all jobs of an exchange.
local function hand(session, request, id, run, spare, queue)
  plan.heads_taken[spare] = plan.heads_taken[spare] or taken_heads(spare)
  local record = plan.jobs[id] == nil and taken(raw[id], run, plan.heads_taken[spare])
  local job = not record and find_job(id, queue)
  if record then
    rewrite(id, record)
    if has_subscribers() then
      happened_to(id, record, HEAD_SIZE + RUN_SIZE + 1, 'started', '', session.name)
    end
  elseif job and job.state == READY then
    begin_run(session, request, job, spare)
  else
    return false
  end
  return true
end

local function hand_out(session, request, ids, from, slots)
  load_many(ids)
  local given, numbers, run = {}, {}, pack(RUN_FORMAT, session.number, request, now, 0)
  for i, id in ipairs(ids) do
    if hand(session, request, id, run, #given >= slots, from[i]) then
      given[#given + 1] = id
      numbers[from[i]] = (numbers[from[i]] or 0) + 1
    end
  end
  for queue, number in pairs(numbers) do
    count(queue, READY, -number)
    count(queue, RUNNING, number)
  end
  return given, numbers
end
