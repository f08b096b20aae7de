-- Taking one by one, where lanes, limits, pauses or blocks have a say: a job that is handed out may let the next of its lane into line.
-- What this exchange puts into a queue's line, in order; what lanes have let in since.
--@include take

local singly = on_demand()

makers[singly] = function()
  function singly.absorb(source)
    local entering = plan.enter[source.queue]
    if not entering or not entering[1] then
      return
    end
    for i = 1, #entering, 2 do
      sorted.insert(source.entering, { entering[i], entering[i + 1] }, 1)
    end
    plan.enter[source.queue] = {}
  end

  -- `share`: how many are read at once; `few`: of the line at first, since jobs in lanes are for free slots only.
  function singly.open_source(queue, share, few)
    local room, limited = queues.room(queue)
    return {
      queue = queue, room = room, limited = limited, share = share, few = math.min(few, share), entering = {},
      row = {}, upto = {}, line = {}, r = 1, l = 1, row_read = room > 0 and 0 or nil, line_read = room > 0 and 0 or nil,
    }
  end

  -- More of row and line, where what was read has been taken.
  function singly.read_on(source)
    if source.row_read and not source.row[source.r] then
      local _
      source.row, source.upto, _, source.row_read = head_of_row(source.queue, source.share, source.row_read)
      source.r = 1
    end
    if source.line_read and not source.line[source.l] then
      local from, ids = source.line_read, {}
      local portion = from == 0 and source.few or source.share
      local line = call('ZRANGE', PREFIX .. 'line:' .. source.queue, from, from + portion - 1, 'WITHSCORES')
      source.line, source.l = {}, 1
      for i = 1, #line, 2 do
        source.line[#source.line + 1] = { tonumber(line[i + 1]), line[i] }
        ids[#ids + 1] = line[i]:sub(13)
      end
      load_many(ids)
      source.line_read = #source.line == portion and from + portion or nil
    end
  end

  -- The first of the three, and where it stands.
  function singly.first_of(source)
    singly.absorb(source)
    singly.read_on(source)
    local best, where = source.line[source.l], 'line'
    local row, entering = source.row[source.r], source.entering[1]
    if row and (not best or sorted.before({ 0, row }, best) or best[1] == 0 and best[2] == row) then
      best, where = { 0, row }, 'row'
    end
    if entering and (not best or sorted.before(entering, best)) then
      best, where = entering, 'entering'
    end
    return best and best[2], where
  end

  function singly.take_out(source, member, where)
    local queue = source.queue
    if where == 'row' then
      plan.rows[queue] = source.upto[source.r]
      source.r = source.r + 1
    elseif where == 'line' then
      plan.heads[queue] = (plan.heads[queue] or 0) + 1
      source.l = source.l + 1
    else
      table.remove(source.entering, 1)
      plan.fresh[member] = nil
      plan.news[queue] = plan.news[queue] - 1
    end
  end

  -- `grace`: how long the worker needs to start a job of a rate. Answers the ids handed out, and by queue what was found there,
  -- for those that were asked.
  function singly.hand_out(session, request, names, slots, spare, round_robin, grace)
    local run = pack(RUN_FORMAT, session.number, request, now, 0)
    local given, sources, wanted, passed_left = {}, {}, slots + spare, PASSED_IN_A_STEP
    local any_barred = check_type(PREFIX .. 'blocked', 'hash')

    -- One job of a queue, if it has one that may go.
    local function take_from(queue)
      local share = round_robin and share_of(wanted, #names) or wanted - #given
      local source = sources[queue] or singly.open_source(queue, share, slots + 1)
      local is_spare = #given >= slots
      sources[queue] = source
      while source.room > 0 and not (is_spare and source.limited) do
        local member, where = singly.first_of(source)
        if not member then
          return false
        end
        local id = member:sub(13)
        local special = plan.jobs[id] or raw[id] and raw[id]:byte(2) and raw[id]:byte(2) >= 64 or any_barred
        local job = special and find_job(id, queue)
        local is_ready = job and job.state == READY
        local laned = is_ready and has_lane(job)
        local late = is_ready and more_of(job).expires and (expiring.at(job) or now) < now
        local passed = late or is_ready and any_barred and barring.stops(job)
        if laned and is_spare and not passed then
          return false
        end
        if passed and passed_left == 0 then
          plan.look_again = true
          return false
        end
        singly.take_out(source, member, where)
        if passed then
          passed_left = passed_left - 1
          count(queue, READY, -1)
        end
        if late then
          singly.failed = true
          lanes.leave(job)
          expiring.fail(job)
        elseif passed then
          barring.bar(job)
        elseif hand(session, request, id, run, is_spare, queue) then
          given[#given + 1] = id
          source.room = source.room - 1
          count(source.queue, READY, -1)
          count(source.queue, RUNNING, 1)
          if laned then
            lanes.start(job, grace)
          end
          return true
        end
      end
      return false
    end

    local found = round_robin
    while found do
      found = false
      for _, queue in ipairs(names) do
        found = #given < wanted and take_from(queue) or found
      end
    end
    for _, queue in ipairs(round_robin and {} or names) do
      while #given < wanted and take_from(queue) do end
    end
    for _, source in pairs(sources) do
      singly.absorb(source)
      for _, entry in ipairs(source.entering) do
        append(plan.enter, source.queue, entry[1], entry[2])
      end
    end
    return given, sources
  end
end
