-- The end of every script that changes jobs. First the checks: keys that were not read on the way. Then the writes, none
-- of which can fail: what they are done to has been checked, and a write to a full or read-only server fails the first time.
--@include history

-- A first write that takes memory: a full server refuses it, and with it all the others.
local function unless_full()
  call('HSET', META, 'format', FORMAT)
end

local commit
do -- only `commit` itself is a name outside: a script may have 200

local function check_all(lists, prefix, kind)
  for name in pairs(lists) do
    check_type(prefix .. name, kind)
  end
end

-- Lists of arguments by the rest of a key's name.
local function bulk_all(command, prefix, lists)
  for name, values in pairs(lists) do
    bulk(command, prefix .. name, values)
  end
end

-- The entries to remove from rows, where that is quick. Elsewhere they are left, and skipped by the take that meets them.
local function entries_to_remove()
  local found, left = {}, 100000
  for queue, members in pairs(plan.leave) do
    local key = PREFIX .. 'row:' .. queue
    local passed = check_type(key, 'list') and call('LLEN', key) * #members
    if passed and passed <= left then
      found[key], left = members, left - passed
    end
  end
  return found
end

-- The indexes in order of arrival: what enters, what leaves. Tags and groups are counted, too.
local function changed_indexes()
  local rankings, changes = { tag = 'tags', group = 'groups' }, {}
  for name, members in pairs(plan.index) do
    local change = { key = PREFIX .. name, enter = {}, leave = {} }
    check_type(change.key, 'zset')
    local kind = name:match('^(%a+):')
    if rankings[kind] then
      change.ranking, change.word = PREFIX .. rankings[kind], name:sub(#kind + 2)
      check_type(change.ranking, 'zset')
    end
    for id, arrival in pairs(members) do
      if arrival then
        change.enter[#change.enter + 1] = arrival
        change.enter[#change.enter + 1] = id
      else
        change.leave[#change.leave + 1] = id
      end
    end
    changes[#changes + 1] = change
  end
  return changes
end

local function write_indexes(changes)
  for _, change in ipairs(changes) do
    bulk('ZADD', change.key, change.enter)
    bulk('ZREM', change.key, change.leave)
    if change.ranking then
      local number = call('ZCARD', change.key)
      if number > 0 then
        call('ZADD', change.ranking, -number, change.word)
      else
        call('ZREM', change.ranking, change.word)
      end
    end
  end
end

-- Scheduled jobs, by queue, and when the first of each queue falls due.
local function write_due()
  local heads, none = {}, {}
  bulk_all('ZREM', PREFIX .. 'due:', plan.due_out)
  bulk_all('ZADD', PREFIX .. 'due:', plan.due_in)
  for queue, entries in pairs(plan.due_in) do
    if not plan.due_out[queue] and entries[1] then
      local earliest = entries[1]
      for i = 3, #entries, 2 do
        earliest = math.min(earliest, entries[i])
      end
      call('ZADD', DUE, 'LT', earliest, queue)
    end
  end
  for queue in pairs(plan.due_out) do
    local head = call('ZRANGE', PREFIX .. 'due:' .. queue, 0, 0, 'WITHSCORES')
    if head[2] then
      heads[#heads + 1] = head[2]
      heads[#heads + 1] = queue
    else
      none[#none + 1] = queue
    end
  end
  bulk('ZREM', DUE, none)
  bulk('ZADD', DUE, heads)
end

-- Of the blocks in which jobs came: how many are gone, which go as a whole, which can be emptied, and which have few left.
local function changed_blocks()
  local names, numbers, few = {}, {}, { 3 * BLOCK / 4, 15 * BLOCK / 16 }
  local change = { counts = {}, over = {}, lists = {}, sparse = {} }
  for block in pairs(plan.holes) do
    names[#names + 1], numbers[#numbers + 1] = string.format('%.0f', block), block
  end
  if names[1] then
    local before, last = read_many('HMGET', PREFIX .. 'holes', names), plan.arrivals or last_arrival()
    for i, name in ipairs(names) do
      local were = before[i] and tonumber(before[i]) or 0
      local are = were + plan.holes[numbers[i]]
      local first = math.max(numbers[i] * BLOCK, 1)
      local behind = (numbers[i] + 1) * BLOCK
      if are >= behind - first then
        change.over[#change.over + 1] = name
      else
        change.counts[#change.counts + 1] = name
        change.counts[#change.counts + 1] = string.format('%.0f', are)
      end
      if are >= math.min(behind, last + 1) - first then
        change.lists[#change.lists + 1] = PREFIX .. 'block:' .. name
      elseif were < few[1] and are >= few[1] or were < few[2] and are >= few[2] then
        change.sparse[#change.sparse + 1] = name
      end
    end
    check_type(ARRIVALS, 'zset')
    check_type(PREFIX .. 'sparse', 'set')
  end
  return change
end

local function write_blocks(change)
  bulk('HSET', PREFIX .. 'holes', change.counts)
  bulk('HDEL', PREFIX .. 'holes', change.over)
  bulk('ZREM', ARRIVALS, change.over)
  bulk('UNLINK', change.lists[1], change.lists)
  bulk('SREM', PREFIX .. 'sparse', change.over)
  bulk('SADD', PREFIX .. 'sparse', change.sparse)
end

-- A map of field -> value, or false: removed. As list of field, value, ... and as list of what is removed.
local function split(fields, encode)
  local set, removed = {}, {}
  for field, value in pairs(fields) do
    if value then
      set[#set + 1] = field
      set[#set + 1] = encode and encode(value) or value
    else
      removed[#removed + 1] = field
    end
  end
  return set, removed
end

-- What has not been looked at on the way is what it should be. Reads only.
local function check_plan()
  check_all(plan.sorted_in, '', 'zset')
  check_all(plan.sorted_out, '', 'zset')
  check_all(plan.lists, '', 'list')
  check_all(plan.fields, '', 'hash')
  check_all(plan.enter, PREFIX .. 'line:', 'zset')
  check_all(plan.leave, PREFIX .. 'line:', 'zset')
  check_all(plan.held_in, '', 'set')
  check_all(plan.held_out, '', 'set')
  check_all(plan.due_in, PREFIX .. 'due:', 'zset')
  check_all(plan.due_out, PREFIX .. 'due:', 'zset')
  if next(plan.large) then
    check_type(LARGE, 'hash')
  end
  if next(plan.more) then
    check_type(MORE_KEY, 'hash')
  end
  if next(plan.due_in) or next(plan.due_out) then
    check_type(DUE, 'zset')
  end
  if next(plan.schedules) then
    schedules.check()
  end
end

-- A job that becomes the first to fall due is news: a sleeper may have to set its timer.
local function note_earliest()
  local head = plan.earliest and call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
  if plan.earliest and (not head or plan.earliest < tonumber(head)) then
    plan.news[plan.earliest_queue] = 16
  end
end

-- The records of the jobs that have changed, and what that means for the memory that ended jobs take.
local function changed_records()
  local removed, bytes = plan.removed, 0
  for _, id in ipairs(plan.changed) do
    local job, before = plan.jobs[id], raw[id]
    if before and before:byte() and before:byte() >= DONE then
      bytes = bytes - history_memory.of(id, before)
    end
    if job then
      job.record = serialize(job)
      rewritten[#rewritten + 1] = id
      rewritten[#rewritten + 1] = job.record
      bytes = bytes + (job.state >= DONE and history_memory.of(id, job.record, true) or 0)
    else
      removed[#removed + 1] = id
    end
  end
  if bytes ~= 0 then
    history_memory.add(bytes)
  end
end

-- The lines of queues, the heads of the sets of ended jobs, what sessions hold. Out before in: a job may leave a place and come back to it.
local function write_places(left)
  for queue, number in pairs(plan.heads) do
    call('ZREMRANGEBYRANK', PREFIX .. 'line:' .. queue, 0, number - 1)
  end
  for queue, number in pairs(plan.rows) do
    call('LTRIM', PREFIX .. 'row:' .. queue, number, -1)
  end
  for key, members in pairs(left) do
    for _, member in ipairs(members) do
      call('LREM', key, 1, member)
    end
  end
  bulk_all('ZREM', PREFIX .. 'line:', plan.leave)
  bulk_all('ZADD', PREFIX .. 'line:', plan.enter)
  write_due()
  for state, number in pairs(plan.ended_heads) do
    call('ZREMRANGEBYRANK', ENDED[state], 0, number - 1)
  end
  bulk_all('SREM', '', plan.held_out)
  bulk_all('SADD', '', plan.held_in)
end

-- The sets of ended jobs, and what lanes, relations and the like keep by key.
local function write_keys()
  bulk_all('ZREM', '', plan.sorted_out)
  bulk_all('ZADD', '', plan.sorted_in)
  for key, list in pairs(plan.lists) do
    if (list.drop or 0) > 0 then
      call('LTRIM', key, list.drop, -1)
    end
    for _, value in ipairs(list.without or {}) do
      call('LREM', key, -1, value)
    end
    bulk('RPUSH', key, list.push)
    if list.keep then
      call('LTRIM', key, -list.keep, -1)
    end
  end
  for key, fields in pairs(plan.fields) do
    local set, removed = split(fields)
    bulk('HSET', key, set)
    bulk('HDEL', key, removed)
  end
end

-- Wakes sleepers, sessions and waiters, and publishes events, once all is written.
local function tell_all(hungry, rung, is_watched)
  for name, number in pairs(hungry) do
    wake(name, number)
  end
  for queue, priority in pairs(rung) do
    waking.ring(queue, priority)
  end
  for session in pairs(plan.tell) do
    rouse(session)
  end
  if is_watched then
    wake_job_waiters(plan.ended)
  end
  publish_events()
end

-- `first` is the first write (a function): one that a full server refuses, or one that it lets through.
function commit(first)
  for _, part in ipairs({ relations, lanes, sorted }) do
    local write = rawget(part, 'write')
    if write then
      write()
    end
  end
  check_plan()
  note_earliest()
  changed_records()
  local left = entries_to_remove()
  local large, large_no_more = split(plan.large)
  local more, more_no_more = split(plan.more, cmsgpack.pack)
  local is_watched = plan.ended[1] and check_type(WATCHED, 'zset')
  local hungry = to_be_woken(plan.news)
  local rung = waking.rings_due(plan.urgent, plan.news, hungry)
  local set, zeros, filled, emptied = changed_counts()
  if filled[1] or emptied[1] then
    check_type(READY_QUEUES, 'zset')
  end
  local indexes, blocks, statistics, groups = changed_indexes(), changed_blocks(), changed_stats(), failing.changes()

  first()
  bulk('UNLINK', plan.gone[1], plan.gone)
  bulk('HSET', JOB, rewritten)
  bulk('HDEL', JOB, plan.removed)
  write_places(left)
  write_keys()
  bulk('HDEL', META, zeros)
  bulk('HSET', META, set)
  bulk('ZREM', READY_QUEUES, emptied)
  bulk('ZADD', READY_QUEUES, filled)
  bulk('HDEL', LARGE, large_no_more)
  bulk('HSET', LARGE, large)
  bulk('HDEL', MORE_KEY, more_no_more)
  bulk('HSET', MORE_KEY, more)
  write_indexes(indexes)
  write_blocks(blocks)
  write_stats(statistics)
  failing.write(groups)
  if next(plan.schedules) then
    schedules.write()
  end
  bulk('HDEL', UNIQUE, plan.unique_out)
  bulk('HSET', UNIQUE, plan.unique_in)
  tell_all(hungry, rung, is_watched)
end

end
