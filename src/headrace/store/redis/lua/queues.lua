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

  -- Names of queues, each once; a pattern gives place to the queues that it means and that have something to give, by name. Of
  -- these no more than `most`: each has a job at least.
  function queues.meant_by(names, most)
    local found, listed, ready = {}, {}, nil
    for _, name in ipairs(names) do
      local meant = { name }
      if is_pattern(name) then
        ready = ready or queues.with_ready_jobs()
        meant = queues.first_of(ready, name, most, listed)
      end
      for _, queue in ipairs(meant) do
        if not listed[queue] then
          listed[queue] = true
          found[#found + 1] = queue
        end
      end
    end
    return found
  end

  -- In the order of bytes, whatever the server's locale is.
  function queues.bytes_before(a, b)
    for i = 1, math.min(#a, #b) do
      if a:byte(i) ~= b:byte(i) then
        return a:byte(i) < b:byte(i)
      end
    end
    return #a < #b
  end

  -- The first `most` of the queues that a pattern means, by name. There may be tens of thousands of queues: each is looked at once, and
  -- told from the last one chosen by a number, made of the bytes after what all have in common.
  function queues.first_of(ready, pattern, most, listed)
    local prefix = pattern:match('^[^*?%[]*')
    local all, size = pattern == prefix .. '*', #prefix
    local chosen, keys, n = {}, {}, 0
    for i = 1, #ready do
      local queue = ready[i]
      if queue:sub(1, size) == prefix and not listed[queue] then
        local key = unpack_from('>I6', queue .. '\0\0\0\0\0\0', size + 1)
        if (n < most or key < keys[n] or key == keys[n] and queues.bytes_before(queue, chosen[n]))
          and (all or patterns.matches(pattern, queue)) then
          local low, high = 1, n + 1
          while low < high do
            local middle = math.floor((low + high) / 2)
            if key < keys[middle] or key == keys[middle] and queues.bytes_before(queue, chosen[middle]) then
              high = middle
            else
              low = middle + 1
            end
          end
          table.insert(chosen, low, queue)
          table.insert(keys, low, key)
          n = n + 1
          if n > most then
            chosen[n], keys[n], n = nil, nil, most
          end
        end
      end
    end
    return chosen
  end

  -- Queues with ready jobs, as they are or as a plan will have them, in no order. Not those that are paused, or have no room.
  function queues.with_ready_jobs()
    local ready, first, changed = {}, tostring(READY):byte(), {}
    for field, by in pairs(plan.counts) do
      if field:byte(1) == first and by ~= 0 then
        changed[field] = (tonumber(call('HGET', META, field) or 0) or 0) + by
      end
    end
    for queue in pairs(queues.without_room()) do
      changed[READY .. queue] = 0
    end
    for _, field in ipairs(call('HKEYS', META)) do
      if field:byte(1) == first and not changed[field] then
        ready[#ready + 1] = field:sub(2)
      end
    end
    for field, number in pairs(changed) do
      if number > 0 then
        ready[#ready + 1] = field:sub(2)
      end
    end
    return ready
  end

  function queues.without_room()
    local full = {}
    for _, field in ipairs(absent[CONTROL] and {} or call('HKEYS', CONTROL)) do
      local queue = field:sub(2)
      full[queue] = queues.room(queue) <= 0 or nil
    end
    return full
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
