-- What a job comes after, where that is more than one step links, and the search for cycles.
--
-- A job that comes after many others at once (by `depend` or the outcome WAITING), or comes back with many (`revive`), is blocked, with
-- `linking` in its `more`, until all of them have been looked at: PARENTS_AT_ONCE in a step, as dependents are released. What is left to
-- do is in {ns}:links:<id>, in order: a letter and H id of each. The letters:
--
--   m  more jobs that it comes after            c  children that it waits for, however they end
--   r  jobs that it comes after no more         d  parents of a job revived by hand: those that have ended are not waited for
--   f  parents of a job that came back with its culprit: it may ask for their results again
--
-- A put names many parents in parts of its own (see put.lua).
--@include admission

local EDGES_TO_FOLLOW = 1000

makers[links] = function()
  -- To be linked step by step, behind what is left from before. `packed`: H id each.
  function links.later(job, letter, packed)
    local key = PREFIX .. 'links:' .. job.id
    local list, places, n = links.list_at(key), checks.places(packed)
    for first = 1, n, PARENTS_AT_ONCE do
      list.push[#list.push + 1] = letter .. packed:sub(places[first], places[math.min(first + PARENTS_AT_ONCE, n + 1)] - 1)
    end
    local more = more_of(job)
    if not more.linking and n > 0 then
      more.linking = true
      keep_more(job, more)
      relations.noted[#relations.noted + 1] = { job.id, relations.LINKING, job.arrival, 0 }
    end
  end

  function links.list_at(key)
    plan.lists[key] = plan.lists[key] or { drop = 0, push = {} }
    return plan.lists[key]
  end

  -- One step of what is left of a job that `note` is about: what that costs, in edges that are worked off, and whether it was the last.
  function links.step(note)
    local job, key = find_job(note[1]), PREFIX .. 'links:' .. note[1]
    local more = job and job.arrival == note[3] and more_of(job)
    if not more or not more.linking then
      return 1, true
    end
    local list = links.list_at(key)
    local part = call('LINDEX', key, list.drop)
    if part then
      list.drop = list.drop + 1
    else
      part = table.remove(list.push, 1) or ''
    end
    local ids = relations.names_in(part:sub(2))
    local reason = links.look_at(job, part:sub(1, 1), ids)
    local is_last = not list.push[1] and not call('LINDEX', key, list.drop)
    more.linking = not is_last or nil
    keep_more(job, more)
    links.go_on(job, more, reason)
    return 2 * #ids, is_last
  end

  -- The answer is the error with which the job has to fail, or nil.
  function links.look_at(job, letter, ids)
    load_many(ids)
    if letter == 'm' or letter == 'c' then
      local reason = links.why_not(job, letter == 'c' and links.unfinished(ids) or ids)
      return reason and culprits.error(reason)
        or relations.begin(job, ids, letter == 'c' and 'run' or more_of(job).if_failed or 'fail')
    end
    for _, id in ipairs(ids) do
      local parent = find_job(id)
      if letter == 'r' or letter == 'd' and (not parent or parent.state >= DONE) then
        relations.part(job, id)
      end
      if parent and letter == 'r' then
        sorted.remove(relations.followers_of(parent), job.id)
      elseif parent then
        relations.follow(job, parent)
      end
    end
    return nil
  end

  function links.unfinished(ids)
    local unfinished = {}
    load_many(ids)
    for _, id in ipairs(ids) do
      local job = find_job(id)
      if job and job.state < DONE then
        unfinished[#unfinished + 1] = id
      end
    end
    return unfinished
  end

  -- Why a job cannot wait for these, in words, or nil.
  function links.why_not(job, ids)
    local found = links.find_cycle(ids, job)
    return found and (found == 'cycle' and WAITS_FOR_ITSELF or TOO_DEEP_TO_WAIT)
  end

  -- All at once where these are few and nothing is left from before, else step by step.
  function links.look_at_all(job, letter, packed)
    local _, number = checks.places(packed)
    if number > PARENTS_AT_ONCE or more_of(job).linking then
      return links.later(job, letter, packed)
    end
    return links.look_at(job, letter, relations.names_in(packed))
  end

  -- A blocked job that has to fail does so; one that waits for nothing any more goes into line.
  function links.go_on(job, more, reason)
    if job.state == BLOCKED and reason then
      unblock(job)
      relations.fail(job, reason)
    elseif job.state == BLOCKED and not relations.waits(job) then
      relations.release(job, more)
    else
      change(job)
    end
  end

  -- Refuses what `depend` would add to what a job comes after.
  function links.check_added(job, ids)
    local lane, found = lanes.of(job), links.find_cycle(ids, job)
    if ids[1] and lane and lane.kept.sequence then
      fail('REFUSED', relations.no_dependencies(job, lane))
    elseif found == 'deep' then
      fail('CYCLE', TOO_DEEP_TO_DEPEND:format(job.id))
    end
    for _, id in ipairs(found and ids or {}) do
      if links.find_cycle({ id }, job) == 'cycle' then
        fail('CYCLE', WOULD_BE_A_CYCLE:format(job.id, id))
      end
    end
  end

  -- Whether one of these jobs is this one or waits for it, directly or not: 'cycle', or nil. The search goes up from them, over what
  -- they wait for, and where that is far, down from the job, over what waits for it. 'deep': that is far, too.
  function links.find_cycle(ids, job)
    for _, id in ipairs(ids) do
      if id == job.id then
        return 'cycle'
      end
    end
    if not more_of(job).precedes then
      return nil
    end
    local found = links.search_up(ids, job)
    if found == 'deep' then
      found = links.search_down(ids, job)
    end
    return found
  end

  function links.search_up(ids, job)
    local ahead, been, left = {}, {}, EDGES_TO_FOLLOW
    for i, id in ipairs(ids) do
      ahead[i] = id
    end
    while ahead[1] do
      local id = table.remove(ahead)
      if id == job.id then
        return 'cycle'
      end
      if not been[id] then
        been[id] = true
        local unmet = relations.unmet_of(id)
        left = left - 1 - unmet.number
        if left < 0 then
          return 'deep'
        end
        for parent in pairs(unmet.came) do
          ahead[#ahead + 1] = parent
        end
        for _, parent in ipairs(unmet.number > 0 and not unmet.is_new and call('SMEMBERS', unmet.key) or {}) do
          if not unmet.left[parent] then
            ahead[#ahead + 1] = parent
          end
        end
      end
    end
    return nil
  end

  -- The entries of jobs that wait for one: those made since it last failed or came back, and those before that are still to be released or failed.
  function links.dependents_of(job, notes, most)
    local number, entries = more_of(job).precedes, {}
    for n = number or 0, math.max((number or 0) - notes, 1), -1 do
      local dependents, patient = relations.edges_of(job.arrival, n)
      for _, key in ipairs({ dependents, n == number and patient or nil }) do
        for _, entry in ipairs(sorted.head(key, most)) do
          entries[#entries + 1] = entry
        end
      end
    end
    return entries
  end

  function links.search_down(ids, job)
    local ahead, been, wanted, left = { job }, { [job.id] = true }, {}, EDGES_TO_FOLLOW
    local notes = call('LLEN', relations.key) + #relations.noted
    for _, id in ipairs(ids) do
      wanted[id] = true
    end
    while ahead[1] do
      local parent = table.remove(ahead)
      local entries = links.dependents_of(parent, math.min(notes, left), left + 1)
      left = left - 1 - #entries
      if left < 0 then
        return 'deep'
      end
      for _, entry in ipairs(entries) do
        local id = entry[2]:sub(2)
        local child = not been[id] and find_job(id)
        if child and child.arrival == entry[1] and relations.is_in(relations.unmet_of(id), parent.id) then
          been[id] = true
          ahead[#ahead + 1] = child
          if wanted[id] then
            return 'cycle'
          end
        end
      end
    end
    return nil
  end
end
