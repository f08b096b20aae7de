-- Jobs that wait for jobs. What a job waits for is in {ns}:unmet:<id>; the jobs that wait for one are in its {ns}:dependents: and
-- {ns}:patient:, which are named by its arrival number: entries of jobs that wait no more may be left there, and are skipped.
-- The jobs that name it among those they come after are in its {ns}:followers:, as long as they may ask for its result.
-- Because of which of those it has failed is in {ns}:culprits:<id>: it comes back when the last of them is revived.
--
-- A job that ends, is removed or is revived is noted in {ns}:releasing if other jobs wait for it, as msgpack:
--   {id, its state (or REMOVED, REVIVED), its arrival, its number of dependents:, true if that is for its patient:, too}
-- and its dependents are released, or fail, in bounded steps. A job with {ns}:links: is noted as {id, LINKING, its arrival, 0}. Those that failed with it go on to its next number of dependents:, for which
-- the next note is.
--@include admission

makers[relations] = function()
  relations.key, relations.REMOVED, relations.REVIVED, relations.LINKING = PREFIX .. 'releasing', 9, 10, 11
  relations.noted, relations.over, relations.known, relations.errors = {}, 0, {}, {}

  -- A set of parents, as it will be.
  function relations.set_of(key)
    local set = relations.known[key]
    if not set then
      set = { key = key, number = call('SCARD', key), came = {}, left = {} }
      relations.known[key] = set
    end
    return set
  end

  -- The ids of the jobs that a job comes after, in the order in which it names them: H id each.
  function relations.packed_parents(job)
    local number = more_of(job).after or 0
    local packed = number > 0 and (plan.fields[AFTER] and plan.fields[AFTER][job.id] or call('HGET', AFTER, job.id)) or ''
    local good, _, found = pcall(checks.places, packed)
    if not good or found ~= number then
      fail_damaged(job.id, job.queue, job.arrival)
    end
    return packed
  end

  function relations.parents_of(job)
    return relations.names_in(relations.packed_parents(job))
  end

  function relations.names_in(packed)
    local names, at = {}, 1
    while at <= #packed do
      names[#names + 1], at = unpack_from('>Hc0', packed, at)
    end
    return names
  end

  function relations.packed(ids)
    local packed = {}
    for i, id in ipairs(ids) do
      packed[i] = pack('>Hc0', #id, id)
    end
    return table.concat(packed)
  end

  function relations.keep_parents(job, more, packed, number)
    set_field(AFTER, job.id, number > 0 and packed)
    more.after = number > 0 and number or nil
    keep_more(job, more)
  end

  -- What a job waits for.
  function relations.unmet_of(id)
    return relations.set_of(PREFIX .. 'unmet:' .. id)
  end

  function relations.is_in(set, parent)
    return set.came[parent]
      or not set.left[parent] and not set.is_new and set.number > 0 and call('SISMEMBER', set.key, parent) == 1
  end

  function relations.add(set, parent)
    if relations.is_in(set, parent) then
      return false
    end
    set.came[parent] = true
    set.number = set.number + 1
    return true
  end

  function relations.drop(set, parent)
    if not relations.is_in(set, parent) then
      return false
    end
    set.came[parent] = nil
    set.left[parent] = true
    set.number = set.number - 1
    return true
  end

  function relations.forget(key)
    plan.gone[#plan.gone + 1] = key
    relations.known[key] = { key = key, number = 0, came = {}, left = {}, is_new = true }
  end

  function relations.followers_of(parent)
    return PREFIX .. string.format('followers:%.0f', parent.arrival)
  end

  -- What only a job with others behind it has must be in its record; its place in line stays as it is.
  function relations.mark(parent, field, value)
    local more = more_of(parent)
    if not more[field] then
      more[field] = value
      keep_more(parent, more)
      if plan.jobs[parent.id] == nil then
        rewrite(parent.id, serialize(parent))
        seen[parent.id] = parent
      end
    end
    return more
  end

  function relations.follow(child, parent)
    relations.mark(parent, 'followed', true)
    sorted.add(relations.followers_of(parent), child.arrival, child.id)
  end

  -- Whether an ended job is kept for jobs that come after it: one that has not ended may ask for its result. Or for why it failed, if
  -- it waits for nothing any more: one that does may wait for the very end of this one. Those that have ended are forgotten, so many
  -- at a time.

  function relations.is_needed(job)
    if not more_of(job).followed then
      return false
    end
    local key, forgotten = relations.followers_of(job), {}
    local followers, ids = sorted.head(key, FOLLOWERS_IN_A_STEP), {}
    for i, entry in ipairs(followers) do
      ids[i] = entry[2]
    end
    load_many(ids)
    for i, id in ipairs(ids) do
      local follower = find_job(id)
      if not follower or follower.arrival ~= followers[i][1] or follower.state >= DONE then
        sorted.remove(key, id)
        relations.forgot = true
      elseif job.state == DONE or relations.unmet_of(id).number == 0 then
        return true
      else
        forgotten[#forgotten + 1] = id
      end
    end
    for _, id in ipairs(forgotten) do
      sorted.remove(key, id)
      relations.forgot = true
    end
    return #ids == FOLLOWERS_IN_A_STEP
  end

  -- One waits for the other no more.
  function relations.part(child, parent_id)
    local parent = relations.drop(relations.unmet_of(child.id), parent_id) and find_job(parent_id)
    local number = parent and more_of(parent).precedes
    if number then
      local dependents, patient = relations.edges_of(parent.arrival, number)
      sorted.remove(dependents, 'f' .. child.id)
      sorted.remove(dependents, 'r' .. child.id)
      sorted.remove(patient, 'w' .. child.id)
    end
  end

  function relations.edges_of(arrival, number)
    return PREFIX .. string.format('dependents:%.0f:%.0f', arrival, number), PREFIX .. string.format('patient:%.0f', arrival)
  end

  function relations.precede(parent, child, policy)
    local more = relations.mark(parent, 'precedes', 1)
    local dependents, patient = relations.edges_of(parent.arrival, more.precedes)
    sorted.add(policy == 'wait' and patient or dependents, child.arrival, policy:sub(1, 1) .. child.id)
  end

  -- A job comes after others. Those that have ended, or are not there, are met; the answer is the error with which it has to fail,
  -- or nil.
  function relations.begin(job, ids, policy)
    load_many(ids)
    local unmet = relations.unmet_of(job.id)
    local error_
    for _, id in ipairs(ids) do
      local parent = find_job(id)
      if parent then
        relations.follow(job, parent)
      end
      if parent and parent.state ~= DONE and (parent.state < DONE or policy ~= 'run') then
        if relations.add(unmet, id) then
          relations.precede(parent, job, policy)
        end
        if parent.state > DONE and policy == 'fail' then
          relations.add(culprits.of(job.id), id)
          error_ = error_ or culprits.because(id, parent, parent.state)
        end
      end
    end
    return error_
  end

  -- Out of whatever state: the caller has seen to that.
  function relations.fail(job, error_, group)
    local story = story_of(job)
    group = group or 'dependency'
    keep_value(job, story, 'error', error_)
    keep_group(job, story, group)
    tell(job, story)
    finish(job, FAILED, now)
    happened(job, 'failed', group)
  end

  -- One whose parents are not all known yet waits, whatever has become of those that are.
  function relations.waits(job)
    local more = more_of(job)
    return more.joining or more.linking or more.after and relations.unmet_of(job.id).number > 0
  end

  -- A blocked job waits for no other any more.
  function relations.release(job, more)
    local was_due = not more.delay and not more.later
    unblock(job)
    if more.delay then
      job.due = now + more.delay
      more.delay = nil
      keep_more(job, more)
    end
    wait_in_line(job, was_due)
  end

  -- What an earlier note still has to tell goes on to the dependents of this one.
  function relations.note(job, state, number, with_patient)
    local dependents, patient = relations.edges_of(job.arrival, number)
    if sorted.head(dependents, 1)[1] or with_patient and sorted.head(patient, 1)[1]
      or relations.noted[1] or call('EXISTS', relations.key) == 1 then
      relations.noted[#relations.noted + 1] = { job.id, state, job.arrival, number, with_patient }
    end
  end

  -- A job has come to an end.
  function relations.ended(job, more)
    relations.note(job, job.state, more.precedes, job.state == DONE)
    more.precedes = job.state ~= DONE and more.precedes + 1 or nil
    keep_more(job, more)
  end

  -- A job has come back from its end.
  function relations.revived(job)
    local more = more_of(job)
    if more.precedes then
      relations.note(job, relations.REVIVED, more.precedes, false)
      more.precedes = more.precedes + 1
      keep_more(job, more)
    end
  end

  -- A job is removed.
  function relations.removed(job)
    local more = more_of(job)
    if more.precedes then
      relations.note(job, relations.REMOVED, more.precedes, true)
    end
    if more.followed then
      local key = relations.followers_of(job)
      plan.gone[#plan.gone + 1] = key
      sorted.known[key] = nil
      sorted.at(key).whole = true
    end
    if more.after or more.linking then
      set_field(AFTER, job.id, false)
      relations.forget(PREFIX .. 'unmet:' .. job.id)
      plan.lists[PREFIX .. 'links:' .. job.id] = nil
      plan.gone[#plan.gone + 1] = more.linking and PREFIX .. 'links:' .. job.id or nil
      if job.state > DONE then
        relations.forget(PREFIX .. 'culprits:' .. job.id)
      end
    end
  end

  -- Tell one that waits: its entry is its arrival, a letter for what it does when that one fails, and its id. True: one that fails
  -- or comes back with its parent stays with it, until that is done or one of them is removed. And what that cost beyond the look.
  function relations.tell_of_end(entry, note)
    local parent, state, arrival = unpack(note)
    local id = entry[2]:sub(2)
    local job = find_job(id)
    local more = job and more_of(job)
    if not job or job.arrival ~= entry[1] or not more.after or not relations.is_in(relations.unmet_of(id), parent) then
      return false, 0
    elseif state == relations.REVIVED then
      return true, culprits.forgive(job, parent)
    end
    local met = state == DONE or entry[2]:sub(1, 1) == 'r'
    local stays = not met and state ~= relations.REMOVED
    if not stays then
      relations.drop(relations.unmet_of(id), parent)
    end
    if not met then
      relations.add(culprits.of(id), parent)
    end
    if job.state == BLOCKED then
      if not met then
        local there = find_job(parent)
        local errors = relations.errors
        errors[note] = errors[note] or culprits.because(parent, there and there.arrival == arrival and there, state)
        unblock(job)
        relations.fail(job, errors[note])
      elseif not relations.waits(job) then
        relations.release(job, more)
      end
    end
    return stays, 0
  end

  function relations.entry_at(number, there)
    if number > #there then
      return relations.noted[number - #there]
    end
    local good, entry = pcall(cmsgpack.unpack, there[number])
    if not good or type(entry) ~= 'table' or type(entry[3]) ~= 'number' or type(entry[4]) ~= 'number' then
      fail('CORRUPT', relations.key .. ' has no job at its head')
    end
    return entry
  end

  -- The dependents of a job that ended, was removed or was revived, so many of them. What is left of the budget, and whether these
  -- were all.
  function relations.tell_dependents(note, budget)
    local arrival, generation = note[3], note[4]
    local keys = { relations.edges_of(arrival, generation) }
    local waiting, children, looked_at = {}, {}, 0
    for i = 1, note[5] and 2 or 1 do
      for _, entry in ipairs(sorted.head(keys[i], budget + 1)) do
        waiting[#waiting + 1] = { entry[1], entry[2], keys[i] }
      end
    end
    table.sort(waiting, function(a, b)
      return a[1] < b[1]
    end)
    for i = 1, math.min(#waiting, budget) do
      children[i] = waiting[i][2]:sub(2)
    end
    load_many(children)
    while looked_at < #children and budget > 0 do
      looked_at = looked_at + 1
      local entry = waiting[looked_at]
      sorted.remove(entry[3], entry[2])
      local stays, cost = relations.tell_of_end(entry, note)
      if stays then
        sorted.add(relations.edges_of(arrival, generation + 1), entry[1], entry[2])
      end
      budget = budget - 1 - cost
    end
    return budget - (#waiting == 0 and 1 or 0), looked_at == #waiting
  end

  -- Works off the notes, oldest first, so many edges in one call. True: there were some.
  function relations.work_off()
    local there = call('LRANGE', relations.key, relations.over, relations.over + EDGES_IN_A_STEP - 1)
    local number, budget = 1, EDGES_IN_A_STEP
    local worked = there[1] ~= nil or relations.noted[1] ~= nil
    while budget > 0 and number <= #there + #relations.noted do
      local note, cost, is_over = relations.entry_at(number, there), nil, nil
      if note[2] == relations.LINKING and number > #there then
        break -- names have been enough for this call
      elseif note[2] == relations.LINKING then
        cost, is_over = links.step(note)
        budget = budget - cost
      else
        budget, is_over = relations.tell_dependents(note, budget)
      end
      number = number + (is_over and 1 or 0)
    end
    local over = math.min(number - 1, #there)
    relations.over = relations.over + over
    for _ = 1, number - 1 - over do
      table.remove(relations.noted, 1)
    end
    relations.unfinished = relations.noted[1] ~= nil or call('LLEN', relations.key) > relations.over
    return worked
  end

  function relations.no_dependencies(job, lane)
    return "Lane '" .. lane.kept.key .. "' of queue '" .. job.queue .. "' is a sequence: its jobs can't wait for others."
  end

  -- A job that runs waits for jobs that it made, H id each. The answer is why it cannot, or nil.
  function relations.wait_for(job, children, delay)
    local lane, more = lanes.of(job), more_of(job)
    local _, number = checks.places(children)
    if lane and lane.kept.sequence then
      return relations.no_dependencies(job, lane)
    end
    local reason = number <= PARENTS_AT_ONCE and links.why_not(job, links.unfinished(relations.names_in(children)))
    if reason then
      return reason
    end
    local before = relations.packed_parents(job)
    more.resumed = true
    relations.keep_parents(job, more, children, number)
    links.look_at_all(job, 'r', before)
    links.look_at_all(job, 'c', children)
    more.delay = relations.waits(job) and delay or nil
    return nil
  end

  -- Into the plan.
  function relations.write()
    for _, unmet in pairs(relations.known) do
      for parent in pairs(unmet.left) do
        if not unmet.came[parent] then
          append(plan.held_out, unmet.key, parent)
        end
      end
      for parent in pairs(unmet.came) do
        append(plan.held_in, unmet.key, parent)
      end
    end
    if relations.over > 0 or relations.noted[1] then
      local push = {}
      for i, entry in ipairs(relations.noted) do
        push[i] = cmsgpack.pack(entry)
      end
      plan.lists[relations.key] = { drop = relations.over, push = push }
    end
  end
end
