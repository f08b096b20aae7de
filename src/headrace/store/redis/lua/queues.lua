-- The controls of queues: paused ones hand out nothing, limited ones only so much at once.
--@include job wait sessions

local queues = on_demand()

makers[queues] = function()
  queues.known = {}

  function queues.said(queue, paused, limit)
    if paused and not paused:find('^%d+ ') or limit and not limit:find('^%d+$') then
      fail('CORRUPT', CONTROL .. ' says nothing about queue ' .. queue)
    end
    return { paused = paused, limit = limit and tonumber(limit) }
  end

  function queues.about(queue)
    local found = queues.known[queue]
    if not found then
      found = queues.said(queue, unpack(call('HMGET', CONTROL, 'p' .. queue, 'l' .. queue), 1, 2))
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
    return said.limit - queues.running(queue) - (counts[RUNNING .. queue] or 0), true
  end

  -- Jobs that run no more make room in queues with a limit: that is news.
  function queues.tell_of_room()
    if call('EXISTS', CONTROL) == 0 then
      return
    end
    for field, by in pairs(counts) do
      local queue = field:sub(2)
      if by < 0 and field:sub(1, 1) == tostring(RUNNING) and queues.about(queue).limit then
        plan.news[queue] = (plan.news[queue] or 0) - by
      end
    end
  end

  -- What is said about many queues, in one go.
  function queues.learn(names)
    local fields = {}
    for i, queue in ipairs(absent[CONTROL] and {} or names) do
      fields[2 * i - 1], fields[2 * i] = 'p' .. queue, 'l' .. queue
    end
    local values = read_many('HMGET', CONTROL, fields)
    for i, queue in ipairs(names) do
      queues.known[queue] = queues.known[queue] or queues.said(queue, values[2 * i - 1], values[2 * i])
    end
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

  -- {ns}:ready_queues is as it was: the queues that a plan gives their first ready job, by name, and those that lose their last.
  function queues.changed()
    local _, _, members, emptied_queues = changed_counts()
    local filled, emptied = {}, {}
    for i = 2, #members, 2 do
      filled[#filled + 1] = members[i]
    end
    for _, queue in ipairs(emptied_queues) do
      emptied[queue] = true
    end
    table.sort(filled, queues.bytes_before)
    return filled, emptied
  end

  -- The names that begin with a prefix end before this one.
  function queues.end_of(prefix)
    prefix = prefix:gsub('\255+$', '')
    return prefix == '' and '+' or '(' .. prefix:sub(1, -2) .. string.char(prefix:byte(-1) + 1)
  end

  -- Names of queues, each once; a pattern gives place to the queues that it means and that have something to give, by name: ready
  -- jobs, and room for them. There may be any number of queues: not more than LOOKED_AT_MOST are looked at, and about `most`
  -- are chosen, as each has a job at least. `from` is where an earlier step has stopped: {pattern, queue}.
  --
  -- Answers {queues; by: queue -> its pattern; stopped: where this step has, nil if there is no more; in_pieces: it was, or will
  -- be, one of several steps; from}.
  queues.LOOKED_AT_MOST, queues.AT_ONCE = 1000, 250

  -- A list of names (see scripts/names.lua) gives place to those of its queues that have ready jobs, and room for them, in their order from
  -- the place `start` on. `cut`: there are more than the `most` that were chosen.
  function queues.meant_by(names, most, from, start)
    local listed, filled, emptied = {}, nil, nil
    start = start or 0
    local walk = { queues = {}, by = {}, left = queues.LOOKED_AT_MOST, number = 0 }
    for _, name in ipairs(names) do
      walk.from = walk.from or from and from[1] == name and from or nil
    end
    local begun = not walk.from

    local function list(queue, pattern)
      if not listed[queue] then
        listed[queue] = true
        walk.queues[#walk.queues + 1] = queue
        walk.by[queue] = pattern
        walk.number = walk.number + (pattern and 1 or 0)
      end
    end

    local function look_for(pattern, place)
      local prefix = pattern:match('^[^*?%[]*')
      local first, last = place == '' and '[' .. prefix or '(' .. place, queues.end_of(prefix)
      local function fits(queue)
        return not listed[queue] and patterns.matches(pattern, queue)
      end
      local waiting = {}
      for _, queue in ipairs(filled) do
        waiting[#waiting + 1] = fits(queue) and queue or nil
      end
      local at, more = 1, true
      while more and walk.left > 0 and walk.number < most do
        local asked = math.min(walk.left, queues.AT_ONCE)
        local found = call('ZRANGEBYLEX', READY_QUEUES, first, last, 'LIMIT', 0, asked)
        local meant = {}
        for _, queue in ipairs(found) do
          while waiting[at] and queues.bytes_before(waiting[at], queue) do
            meant[#meant + 1] = waiting[at]
            at = at + 1
          end
          meant[#meant + 1] = not emptied[queue] and fits(queue) and queue or nil
        end
        more, walk.left = #found == asked, walk.left - #found
        place = found[#found] or place
        first = '(' .. place
        while waiting[at] and not more do
          meant[#meant + 1] = waiting[at]
          at = at + 1
        end
        queues.learn(meant)
        for _, queue in ipairs(meant) do
          if queues.room(queue) > 0 then
            list(queue, pattern)
          end
        end
      end
      walk.stopped = more and { pattern, place } or nil
    end

    -- Those that the plan gives their first job stand among the others.
    local function look_in(name, key)
      local chosen, all = patterns.listed_in(key, READY_QUEUES, 0, start, most)
      local last = chosen[#chosen]
      patterns.learn(name, filled)
      for _, queue in ipairs(filled) do
        local place = patterns.place_in(name, queue)
        if place and (all or (place - start) % LONG_LIST < (last[1] - start) % LONG_LIST) then
          chosen[#chosen + 1] = { place, queue }
        end
      end
      patterns.put_in_order(chosen, start)
      for i, entry in ipairs(chosen) do
        chosen[i] = entry[2]
      end
      walk.cut = not all
      for first = 1, #chosen, queues.AT_ONCE do
        local meant = { unpack(chosen, first, math.min(first + queues.AT_ONCE - 1, #chosen)) }
        queues.learn(meant)
        for _, queue in ipairs(meant) do
          if #walk.queues < most and not emptied[queue] and queues.room(queue) > 0 then
            list(queue)
          end
        end
        if #walk.queues >= most then
          walk.cut = true
          return
        end
      end
    end

    for _, name in ipairs(names) do
      local is_list = is_pattern(name) and patterns.list_asked_for(name)
      if is_pattern(name) and not filled then
        filled, emptied = queues.changed()
      end
      if is_list then
        look_in(name, is_list)
      elseif not is_pattern(name) then
        list(name)
      elseif not walk.stopped and (begun or name == from[1]) then
        look_for(name, not begun and from[2] or '')
        begun = true
      end
    end
    walk.in_pieces = walk.from ~= nil or walk.left <= 0
    return walk
  end

  -- Where the step after this one begins; nil: at the beginning. It goes by name, as long as one step finds all queues that have jobs.
  -- What takes several goes round: a session that had enough goes on behind the last queue that gave some. `asked`: by queue, whether
  -- jobs were taken from there, or looked for.
  function queues.place_after(walk, asked, enough)
    if not enough then
      return walk.stopped
    elseif not walk.in_pieces then
      return nil
    end
    local place = walk.from
    for _, queue in ipairs(walk.queues) do
      local pattern = walk.by[queue]
      if pattern and not asked[queue] then
        return place
      end
      place = pattern and { pattern, queue } or place
    end
    return walk.stopped
  end

  -- What the last exchange that took has left to the next: {again: the session was to look again; place: where to go on
  -- looking; news: there was some since that began}. Nothing, mostly.
  function queues.left_by(session)
    local good, left = pcall(cmsgpack.unpack, session.unfinished)
    left = good and type(left) == 'table' and left or {}
    local place = left.place
    if type(place) ~= 'table' or type(place[1]) ~= 'string' or type(place[2]) ~= 'string' then
      left.place = nil
    end
    return left
  end

  -- Whether a session that looks for queues in several steps may have passed by news: it was woken, or would not have been.
  function queues.may_have_missed_news(session)
    local registered = hungry_for(session)
    for _, name in ipairs(registered) do
      if not call('ZMSCORE', PREFIX .. 'hungry:' .. name, session.id)[1] then
        return true
      end
    end
    return registered[1] == nil
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
