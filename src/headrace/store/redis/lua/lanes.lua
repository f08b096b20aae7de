-- Lanes: at most one job of a lane, its front, stands in the line of the queue, or will when the rate allows it. The others
-- whose time has come are blocked, in a line of the lane's own. In a sequence one job is first until it has come to an end.
--
-- A lane is named by its queue and its key: length of the queue's name, colon, queue, colon, key. What is kept of it in
-- {ns}:lanes, as msgpack:
--   key, limit, rate, per             what it goes by: what an operator has set, or else what puts have said; no limit or rate: nil
--   sequence, weight (nil: 1)
--   rule, said                        what an operator has set, as in {ns}:lane_rules, and {limit, rate, per} as puts have said
--   change                            {at, job, what}: how a put has last changed what it goes by
--   number                            how many jobs it has that have not come to an end
--   front, front_due                  the id of its front, and when that was due before the lane said when
--   first                             in a sequence, the id of the job that is first
--   served                            how many jobs of the present round have been handed out, if any
--   round_at                          the due time of the first of these; or no earlier than which the next round is due
--@include admission

makers[lanes] = function()
  lanes.key, lanes.fading, lanes.known = PREFIX .. 'lanes', PREFIX .. 'fading', {}
  lanes.rules = PREFIX .. 'lane_rules'

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
        name = name, queue = name:sub(#length + 2, #length + 1 + (tonumber(length) or 0)), kept = kept, line = PREFIX .. 'lane:' .. name, runs = PREFIX .. 'runs:' .. name, starts = PREFIX .. 'starts:' .. name,
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

  function lanes.read_rule(name, packed)
    local good, rule = pcall(cmsgpack.unpack, packed)
    local sound = good and type(rule) == 'table'
    for _, field in ipairs({ 'limit', 'rate', 'per' }) do
      sound = sound and type(rule[field] or 1) == 'number'
    end
    if not sound or rule.rate and (rule.per or 0) < 1 then
      fail('CORRUPT', lanes.rules .. ' has no rule in field ' .. name)
    end
    return rule
  end

  -- What an operator has set for a lane, if anything. It is kept apart from the lane, so that idle lanes cost nothing.
  function lanes.rule_of(name)
    local packed = call('HGET', lanes.rules, name)
    return packed and lanes.read_rule(name, packed) or nil
  end

  -- What puts have said of a lane.
  function lanes.said_of(kept)
    local said = kept.said or kept
    return { limit = said.limit, rate = said.rate, per = said.per }
  end

  -- One put more says something: nil says nothing, 0 is no limit, or no rate.
  function lanes.say(kept, wanted)
    local said = lanes.said_of(kept)
    if wanted.limit then
      said.limit = wanted.limit > 0 and wanted.limit or nil
    end
    if wanted.rate then
      said.rate, said.per = wanted.rate > 0 and wanted.rate or nil, wanted.per or 1000
    end
    kept.sequence = wanted.sequence or nil
    if wanted.weight then
      kept.weight = wanted.weight ~= 1 and wanted.weight or nil
    end
    return said
  end

  -- Go by what puts have said, as far as no rule is set.
  function lanes.go_by(kept, said, rule)
    kept.limit, kept.rate, kept.per = said.limit, said.rate, said.rate and said.per or 1000
    kept.rule, kept.said = rule, rule and said
    if rule and rule.limit then
      kept.limit = rule.limit > 0 and rule.limit or nil
    end
    if rule and rule.rate then
      kept.rate, kept.per = rule.rate > 0 and rule.rate or nil, rule.rate > 0 and rule.per or 1000
    end
  end

  -- What a lane goes by, to compare with.
  lanes.TERMS = { 'limit', 'rate', 'per', 'sequence', 'weight' }

  function lanes.terms(kept)
    return { limit = kept.limit, rate = kept.rate, per = kept.per, sequence = kept.sequence, weight = kept.weight }
  end

  function lanes.same(before, kept)
    for _, name in ipairs(lanes.TERMS) do
      if before[name] ~= kept[name] then
        return false
      end
    end
    return true
  end

  function lanes.rate_in_words(rate, per)
    return rate and rate > 0 and string.format('%.0f in %.0f ms', rate, per) or 'none'
  end

  function lanes.number_in_words(number)
    return number and number > 0 and string.format('%.0f', number) or 'none'
  end

  -- How that has changed; '' if it has not.
  function lanes.what_changes(before, kept)
    local words = {}
    for _, part in ipairs({
      { 'limit', lanes.number_in_words(before.limit), lanes.number_in_words(kept.limit) },
      { 'rate', lanes.rate_in_words(before.rate, before.per), lanes.rate_in_words(kept.rate, kept.per) },
      { 'weight', lanes.number_in_words(before.weight or 1), lanes.number_in_words(kept.weight or 1) },
    }) do
      if part[2] ~= part[3] then
        words[#words + 1] = part[1] .. ' ' .. part[2] .. ' to ' .. part[3]
      end
    end
    return table.concat(words, ', ')
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
  function lanes.let_first_in(lane, job, later)
    if later then
      schedule(job)
    else
      lanes.make_front(lane, job)
    end
  end

  function lanes.block_in_lane(lane, job, later)
    block(job, later)
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
          lanes.let_first_in(lane, job, more_of(job).later and job.due > now)
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

  -- Whether a job waits for its time: it was not due when that was last worked out.
  function lanes.is_later(job)
    if job.state == BLOCKED then
      return more_of(job).later
    end
    local lane = job.state == SCHEDULED and lanes.of(job)
    return job.state == SCHEDULED and not (lane and lane.kept.front == job.id)
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
      if lane.kept.key then
        lanes.forget(lane)
      end
      if not lane.kept.key then
        lane.kept = { key = wanted.key, per = 1000, number = 0 }
        lanes.go_by(lane.kept, lanes.say(lane.kept, wanted), lanes.rule_of(lane.name))
      end
      lane.kept.number = lane.kept.number + 1
    end
  end

  -- A put changes those rules of its lane that it says something about. Answers how, in words, if it does.
  function lanes.define(job)
    local lane, wanted = lanes.of(job)
    if not lane then
      return nil
    end
    local kept, before = lane.kept, lanes.terms(lane.kept)
    lanes.go_by(kept, lanes.say(kept, wanted), kept.rule)
    if lanes.same(before, kept) then
      return nil
    end
    local what = lanes.what_changes(before, kept)
    if what ~= '' then
      kept.change = { at = now, job = job.id, what = what }
    end
    lanes.apply(lane)
    return what ~= '' and what or nil
  end

  -- What a lane goes by has changed. Jobs that stand in line by the old rules are looked at anew.
  function lanes.apply(lane)
    local kept = lane.kept
    if not kept.rate then
      lane.started, lane.forgets = {}, true
    end
    lanes.look_again_at_front(lane, { front = kept.front, front_due = kept.front_due })
    lanes.admit(lane)
  end

  -- An operator sets a rule, or clears it (nil).
  function lanes.govern(name, rule)
    local lane = lanes.at(name)
    lanes.forget(lane)
    set_field(lanes.rules, name, rule and cmsgpack.pack(rule) or false)
    if lane.kept.key then
      local before = lanes.terms(lane.kept)
      lanes.go_by(lane.kept, lanes.said_of(lane.kept), rule)
      if not lanes.same(before, lane.kept) then
        lanes.apply(lane)
      end
      lanes.forget(lane)
    end
    plan.news[lane.queue] = (plan.news[lane.queue] or 0) + 16
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
  function lanes.hold(job, later)
    local lane = lanes.of(job)
    if not lane.kept.sequence then
      return false
    end
    if lane.kept.first == job.id then
      lanes.let_first_in(lane, job, later)
    else
      lanes.block_in_lane(lane, job, later)
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
  -- back). How long that is: what the worker needs, at least 1.5 % of the rate's time; none at all if `grace` is negative.
  function lanes.count_start(lane, job, grace)
    local more, per = more_of(job), lane.kept.per
    if more.start_within and not lane.kept.rate then
      more.start_within = nil
      keep_more(job, more)
    elseif lane.kept.rate then
      local most, before = math.max(per, SHORTEST_START), lanes.start_before(lane, 1)
      local within = grace < 0 and 0 or math.min(math.max(math.floor(3 * per / 200), grace, 1), most)
      if before and before <= now + 2 * most then -- else the clock was set back
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

  -- {limit, rate, per, by, at} as msgpack, or ''; the same of {at, job, what}.
  function lanes.packed(map)
    return map and cmsgpack.pack(map) or ''
  end

  -- A lane, or what it would be by the rule that is set; nil if there is neither.
  function lanes.shown(name)
    local lane = lanes.at(name)
    lanes.forget(lane)
    if not lane.kept.key then
      local rule = lanes.rule_of(name)
      if not rule then
        return nil
      end
      lane.kept = { key = name:sub(#lane.queue + #tostring(#lane.queue) + 3), per = 1000, number = 0 }
      lanes.go_by(lane.kept, {}, rule)
    end
    return lane
  end

  -- What there is to say about a lane: {key, limit, rate, per, sequence, ids of those that run, how many these are, front, how many are
  -- blocked, next start, weight, rule, change}, '' for what it does not have. Nothing, if there is no lane.
  function lanes.describe(name)
    local lane = lanes.shown(name)
    if not lane then
      return {}
    end
    local kept = lane.kept
    local next_start = lanes.next_start(lane)
    return {
      kept.key, kept.limit or '', kept.rate or '', kept.per, kept.sequence and 1 or 0,
      kept.sequence and { kept.first } or call('ZRANGE', lane.runs, 0, 9), kept.sequence and (kept.first and 1 or 0) or lane.running,
      kept.front or '', call('ZCARD', lane.line), next_start > now and string.format('%.0f', next_start) or '',
      kept.weight or 1, lanes.packed(kept.rule), lanes.packed(kept.change),
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
