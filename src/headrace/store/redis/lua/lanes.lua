-- Lanes: at most one job of a lane, its front, stands in the line of the queue, or will when the rate allows it. The others
-- whose time has come are blocked, in a line of the lane's own. In a sequence one job is first until it has come to an end.
--
-- A lane is named by its queue and its key: length of the queue's name, colon, queue, colon, key. What is kept of it in
-- {ns}:lanes, as msgpack:
--   key, limit, rate, per, sequence,  as in the newest job that was put into it
--   weight (nil: 1)
--   number                            how many jobs it has that have not come to an end
--   front, front_due                  the id of its front, and when that was due before the lane said when
--   first                             in a sequence, the id of the job that is first
--   served                            how many jobs of the present round have been handed out, if any
--   round_at                          the due time of the first of these; or no earlier than which the next round is due
--@include admission

makers[lanes] = function()
  lanes.key, lanes.fading, lanes.known = PREFIX .. 'lanes', PREFIX .. 'fading', {}

  function lanes.name(queue, key)
    return #queue .. ':' .. queue .. ':' .. key
  end

  -- A lane as it will be.
  function lanes.at(name)
    local lane = lanes.known[name]
    if not lane then
      local packed = call('HGET', lanes.key, name)
      local kept = { number = 0 }
      if packed then
        local good, found = pcall(cmsgpack.unpack, packed)
        if not good or type(found) ~= 'table' or type(found.number) ~= 'number' then
          fail('CORRUPT', lanes.key .. ' has no lane in field ' .. name)
        end
        kept = found
      end
      local length = name:match('^%d+') or ''
      lane = {
        queue = name:sub(#length + 2, #length + 1 + (tonumber(length) or 0)), kept = kept, line = PREFIX .. 'lane:' .. name, runs = PREFIX .. 'runs:' .. name, starts = PREFIX .. 'starts:' .. name,
        running = call('ZCARD', PREFIX .. 'runs:' .. name), started = {}, taken_back = {}, never = {},
      }
      types[lane.runs], lanes.known[name] = 'zset', lane -- or ZCARD would have failed
    end
    return lane
  end

  -- The lane of a job, if it is in one, and what the job says about it.
  function lanes.of(job)
    if not has_lane(job) then
      return nil
    end
    local wanted = more_of(job).lane
    if job.lane_wanted ~= wanted or job.lane_queue ~= job.queue then -- it is asked for several times
      job.lane_wanted, job.lane_queue, job.lane = wanted, job.queue, lanes.at(lanes.name(job.queue, wanted.key))
    end
    return job.lane, wanted
  end

  -- Where a job stands in the line of its lane: a sequence goes by arrival alone.
  function lanes.place(lane, job)
    if lane.kept.sequence then
      return 0, pack('>I6I6', 0, job.arrival) .. job.id
    end
    return -job.priority, place(job)
  end

  function lanes.wanted_lane(wanted)
    return {
      key = wanted.key, limit = wanted.limit, rate = wanted.rate, per = wanted.per or 1000,
      sequence = wanted.sequence or nil, weight = wanted.weight ~= 1 and wanted.weight or nil, number = 0,
    }
  end

  -- When a lane's n-th start from the end was, at the latest; nil: it is not remembered.
  function lanes.start_before(lane, n)
    local started = lane.started
    if n <= #started then
      return started[#started - n + 1]
    end
    local back = n - #started
    for _, place in ipairs(lane.taken_back) do
      back = place <= back and back + 1 or back
    end
    return not lane.forgets and tonumber(call('LINDEX', lane.starts, -back) or nil) or nil
  end

  -- From when on the rate allows another start.
  function lanes.next_start(lane)
    local start = lane.kept.rate and lanes.start_before(lane, lane.kept.rate)
    return start and start + lane.kept.per or 0
  end

  -- The next round of the lane comes behind those that other lanes begin now.
  function lanes.end_round(kept)
    kept.served, kept.round_at = nil, math.max(kept.round_at or 0, now) + 1
  end

  -- Into the line of the queue, at the place of the lane's round, or as soon as the rate allows it. A round that follows others of
  -- its lane stands behind as many of other lanes.
  function lanes.make_front(lane, job)
    local earliest, kept = lanes.next_start(lane), lane.kept
    kept.front, kept.front_due = job.id, job.due
    local place = kept.round_at or 0
    if not kept.served then
      place = math.max(now, math.min(place, now + LANES_AHEAD))
    end
    job.due = math.max(place, earliest)
    if earliest > now then
      schedule(job)
    else
      stand(job)
    end
  end

  -- It is the first of its sequence.
  function lanes.let_first_in(lane, job)
    if job.due > now then
      schedule(job)
    else
      lanes.make_front(lane, job)
    end
  end

  function lanes.block_in_lane(lane, job)
    block(job)
    sorted.add(lane.line, lanes.place(lane, job))
  end

  -- If there is room, the next one.
  function lanes.admit(lane)
    local kept = lane.kept
    while not kept.front and not kept.first and (kept.sequence or not kept.limit or lane.running < kept.limit) do
      local head = sorted.head(lane.line, 1)[1]
      if not head then
        if kept.served then
          lanes.end_round(kept)
        end
        return
      end
      sorted.remove(lane.line, head[2])
      local job = find_job(head[2]:sub(13), lane.queue, #head[2] > 12 and unpack_from('>xxxxxxI6', head[2]) or nil)
      if job and job.state == BLOCKED then
        unblock(job)
        if kept.sequence then
          kept.first = job.id
          lanes.let_first_in(lane, job)
        else
          lanes.make_front(lane, job)
        end
      end
    end
  end

  -- When a job is due by itself, whatever its lane says of its front.
  function lanes.own_due(job)
    local lane = lanes.of(job)
    return lane and lane.kept.front == job.id and lane.kept.front_due or job.due
  end

  -- A job's lane may have room now.
  function lanes.look_again(job)
    local lane = lanes.of(job)
    if lane then
      lanes.admit(lane)
    end
  end

  -- A job that has not come to an end is new in its lane.
  function lanes.join(job)
    local lane, wanted = lanes.of(job)
    if lane then
      if not lane.kept.key then
        lane.kept = lanes.wanted_lane(wanted)
      end
      lane.kept.number = lane.kept.number + 1
    end
  end

  -- A lane goes by the newest put. Jobs that stand in line by the old rules are looked at anew.
  function lanes.define(job)
    local lane, wanted = lanes.of(job)
    if not lane then
      return
    end
    local old, new = lane.kept, lanes.wanted_lane(wanted)
    if old.limit == new.limit and old.rate == new.rate and old.per == new.per and old.sequence == new.sequence
      and old.weight == new.weight then
      return
    end
    new.number, new.first, new.served, new.round_at = old.number, old.first, old.served, old.round_at
    lane.kept = new
    if not new.rate then
      lane.started, lane.forgets = {}, true
    end
    lanes.look_again_at_front(lane, old)
    lanes.admit(lane)
  end

  -- What a lane allows has changed: the front, as `old` has it, stands in line again, or stays first in its sequence.
  function lanes.look_again_at_front(lane, old)
    local front = old.front and find_job(old.front)
    lane.kept.front = nil
    if front then
      leave_state(front)
      front.due = old.front_due or front.due
      if lane.kept.first == front.id then
        lanes.make_front(lane, front)
      else
        lanes.block_in_lane(lane, front)
      end
    end
  end

  -- Whether its lane is put to another use while it has jobs.
  function lanes.clashes(queue, wanted)
    local kept = lanes.at(lanes.name(queue, wanted.key)).kept
    return kept.number > 0 and (kept.sequence or false) ~= (wanted.sequence or false)
  end

  -- Of a sequence only the first job goes on, when it is due; all others wait until they are first. False: it is not in a sequence.
  function lanes.hold(job)
    local lane = lanes.of(job)
    if not lane.kept.sequence then
      return false
    end
    if lane.kept.first == job.id then
      lanes.let_first_in(lane, job)
    else
      lanes.block_in_lane(lane, job)
      lanes.admit(lane)
    end
    return true
  end

  -- A job's time has come.
  function lanes.enter(job)
    local lane = lanes.of(job)
    if lane.kept.front == job.id then
      stand(job)
    elseif lane.kept.first == job.id then
      lanes.make_front(lane, job)
    else
      lanes.block_in_lane(lane, job)
      lanes.admit(lane)
    end
  end

  -- A job that waits gives up its place.
  function lanes.leave(job)
    local lane = job.state < DONE and lanes.of(job)
    if not lane then
      return
    end
    if job.state == BLOCKED then
      local _, member = lanes.place(lane, job)
      sorted.remove(lane.line, member)
    end
    if lane.kept.front == job.id then
      lane.kept.front = nil
    end
  end

  -- A rate counts a start as late as it can be: twice as long after the hand-out as the worker has to start it (or to give it
  -- back). How long that is: what the worker needs, at least 1.5 % of the rate's time.
  function lanes.count_start(lane, job, grace)
    local more, per = more_of(job), lane.kept.per
    if more.start_within and not lane.kept.rate then
      more.start_within = nil
      keep_more(job, more)
    elseif lane.kept.rate then
      local within, before = math.min(math.max(math.floor(3 * per / 200), grace, 1), per), lanes.start_before(lane, 1)
      if before and before <= now + 2 * per then -- else the clock was set back
        within = math.max(within, math.ceil((before - now) / 2))
      end
      more.start_within = within
      keep_more(job, more)
      lane.started[#lane.started + 1] = now + 2 * within
    end
  end

  -- A job is given back unstarted: its rate need not count it. (Several of a lane may have been handed out at once.)
  function lanes.never_started(job)
    local lane, within = lanes.of(job), more_of(job).start_within
    if not within then
      return
    end
    local start, alike = string.format('%.0f', job.started + 2 * within), 1
    for _, other in ipairs(lane.never) do
      alike = other == start and alike + 1 or alike
    end
    local at = call('LPOS', lane.starts, start, 'RANK', -alike)
    if at then
      lane.never[#lane.never + 1] = start
      lane.taken_back[#lane.taken_back + 1] = call('LLEN', lane.starts) - at
      table.sort(lane.taken_back)
      lanes.look_again_at_front(lane, lane.kept)
    end
  end

  -- A job is handed out, and makes way for the next.
  function lanes.start(job, grace)
    local lane = lanes.of(job)
    local kept = lane.kept
    lane.running = lane.running + 1
    append(plan.sorted_in, lane.runs, job.arrival, job.id)
    if kept.front == job.id then
      kept.front = nil
    end
    kept.round_at = kept.served and kept.round_at or job.due
    kept.served = (kept.served or 0) + 1
    if kept.served >= (kept.weight or 1) then
      lanes.end_round(kept)
    end
    lanes.count_start(lane, job, grace)
    lanes.admit(lane)
  end

  -- A job runs no more. Its room is given away when it has found its place.
  function lanes.stopped(job)
    local lane = lanes.of(job)
    lane.running = lane.running - 1
    append(plan.sorted_out, lane.runs, job.id)
  end

  -- Until when the rate has something to remember.
  function lanes.memory(lane)
    if not lane.kept.rate then
      return 0
    end
    local last = lanes.start_before(lane, 1)
    return last and last + lane.kept.per or 0
  end

  -- A lane without jobs is forgotten as soon as its rate has nothing to remember.
  function lanes.forget(lane)
    if lane.kept.number <= 0 and lanes.memory(lane) <= now then
      lane.kept, lane.started, lane.forgets = { number = 0 }, {}, true
    end
  end

  -- A job has come to an end, or leaves its lane.
  function lanes.ended(job)
    local lane = lanes.of(job)
    lane.kept.number = lane.kept.number - 1
    if lane.kept.first == job.id then
      lane.kept.first = nil
    end
    lanes.admit(lane)
    if lane.kept.number <= 0 then
      lane.kept.served, lane.kept.round_at = nil, nil
    end
    lanes.forget(lane)
  end

  -- What there is to say about a lane: {key, limit, rate, per, sequence, ids of those that run, front, how many are blocked,
  -- next start, weight}, '' for what it does not have. Nothing, if there is no lane.
  function lanes.describe(name)
    local lane = lanes.at(name)
    lanes.forget(lane)
    local kept = lane.kept
    if not kept.key then
      return {}
    end
    local next_start = lanes.next_start(lane)
    return {
      kept.key, kept.limit or '', kept.rate or '', kept.per, kept.sequence and 1 or 0,
      kept.sequence and { kept.first } or call('ZRANGE', lane.runs, 0, 9), kept.sequence and (kept.first and 1 or 0) or lane.running,
      kept.front or '', call('ZCARD', lane.line), next_start > now and string.format('%.0f', next_start) or '',
      kept.weight or 1,
    }
  end

  -- Into the plan.
  function lanes.write()
    if next(lanes.known) == nil then
      return
    end
    local fields, came, left = {}, {}, {}
    for name, lane in pairs(lanes.known) do
      local kept = lane.kept
      fields[name] = kept.key and cmsgpack.pack(kept) or false
      if lane.forgets then
        plan.gone[#plan.gone + 1] = lane.starts
      end
      if lane.started[1] or kept.rate then
        local push = {}
        for i, start in ipairs(lane.started) do
          push[i] = string.format('%.0f', start)
        end
        plan.lists[lane.starts] = { without = lane.never, push = push, keep = kept.rate }
      end
      if kept.key and kept.number <= 0 then
        came[#came + 1] = lanes.memory(lane)
        came[#came + 1] = name
      else
        left[#left + 1] = name
      end
    end
    plan.fields[lanes.key] = fields
    plan.sorted_in[lanes.fading], plan.sorted_out[lanes.fading] = came, left
  end
end
