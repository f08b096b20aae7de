-- What somebody has said about queues: paused ones hand out nothing, limited ones only so much at once.
local CONTROL = PREFIX .. 'control'
local queues = on_demand('queues')

makers.queues = function()
  queues.known = {}

  function queues.about(queue)
    local found = queues.known[queue]
    if not found then
      local values = call('HMGET', CONTROL, 'p' .. queue, 'l' .. queue)
      if values[1] and not values[1]:find('^%d+ ') or values[2] and not values[2]:find('^%d+$') then
        fail('CORRUPT', CONTROL .. ' says nothing about queue ' .. queue)
      end
      found = { paused = values[1], limit = values[2] and tonumber(values[2]) }
      queues.known[queue] = found
    end
    return found
  end

  function queues.running(queue)
    return tonumber(call('HGET', META, RUNNING .. queue) or 0) or 0
  end

  -- How many jobs of a queue may be handed out now, and whether that is limited at all.
  function queues.room(queue)
    local said = queues.about(queue)
    if said.paused then
      return 0, true
    elseif not said.limit then
      return math.huge, false
    end
    return said.limit - queues.running(queue) - (plan.counts[RUNNING .. queue] or 0), true
  end

  -- Jobs that run no more make room in queues with a limit: that is news.
  function queues.tell_of_room()
    if call('EXISTS', CONTROL) == 0 then
      return
    end
    for field, by in pairs(plan.counts) do
      local queue = field:sub(2)
      if by < 0 and field:sub(1, 1) == tostring(RUNNING) and queues.about(queue).limit then
        plan.news[queue] = (plan.news[queue] or 0) - by
      end
    end
  end

  -- Names of queues, each once; a pattern gives place to the queues that it means and that have ready jobs, by name.
  function queues.meant_by(names)
    local found, listed, ready = {}, {}, nil
    local function list(queue)
      if not listed[queue] then
        listed[queue] = true
        found[#found + 1] = queue
      end
    end
    for _, name in ipairs(names) do
      if not is_pattern(name) then
        list(name)
      else
        ready = ready or queues.with_ready_jobs()
        for _, queue in ipairs(ready) do
          if patterns.matches(name, queue) then
            list(queue)
          end
        end
      end
    end
    return found
  end

  function queues.bytes_before(a, b)
    for i = 1, math.min(#a, #b) do
      if a:byte(i) ~= b:byte(i) then
        return a:byte(i) < b:byte(i)
      end
    end
    return #a < #b
  end

  -- By name, in the order of bytes whatever the server's locale is.
  function queues.with_ready_jobs()
    local numbers, ready = {}, {}
    for _, field in ipairs(call('HKEYS', META)) do
      if field:sub(1, 1) == tostring(READY) then
        numbers[field] = 1
      end
    end
    local fields = {}
    for field in pairs(numbers) do
      fields[#fields + 1] = field
    end
    local values = read_many('HMGET', META, fields)
    for i, field in ipairs(fields) do
      numbers[field] = tonumber(values[i] or 0) or 0
    end
    for field, by in pairs(plan.counts) do
      if field:sub(1, 1) == tostring(READY) then
        numbers[field] = (numbers[field] or 0) + by
      end
    end
    for field, number in pairs(numbers) do
      if number > 0 then
        ready[#ready + 1] = field:sub(2)
      end
    end
    table.sort(ready, queues.bytes_before)
    return ready
  end

  -- Whether a session that is alive listens to a queue and knows a task.
  function queues.is_served_by(id, queue, task)
    local found = call('HMGET', session_key(id), 'queue:' .. queue, 'task:' .. task, 'patterns')
    local listens = found[1]
    if not listens and found[2] and found[3] then
      local good, globs = pcall(cjson.decode, found[3])
      for _, pattern in ipairs(good and type(globs) == 'table' and globs or {}) do
        listens = listens or type(pattern) == 'string' and patterns.matches(pattern, queue)
      end
    end
    if not listens or not found[2] then
      return nil
    end
    local session = read_session(id)
    return session and not session.closed and not expired(session) and session or nil
  end
end
