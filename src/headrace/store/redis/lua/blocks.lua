-- Tasks that are blocked, in {ns}:blocked, and the jobs that wait because of it: {ns}:barred:<task>, by arrival, and `barred` in what is
-- kept about each. Tasks that are no longer blocked and still have such jobs are in {ns}:lifting.
--@include admission

makers[barring] = function()
  barring.key, barring.lifting, barring.known = PREFIX .. 'blocked', PREFIX .. 'lifting', {}

  -- Whether a job can't be handed out.
  function barring.stops(job)
    local task = task_of(job)
    if barring.known[task] == nil then
      barring.known[task] = call('HGET', barring.key, task) ~= false
    end
    return barring.known[task]
  end

  -- A task that is blocked: {since when, by whom, why} as msgpack; '' if it is not.
  function barring.about(task)
    local packed = call('HGET', barring.key, task)
    local good, found = pcall(cmsgpack.unpack, packed or '')
    if packed and not (good and type(found) == 'table' and type(found[1]) == 'number' and found[3]) then
      fail('CORRUPT', barring.key .. ' says nothing in field ' .. task)
    end
    return packed or '', found
  end

  function barring.number(task)
    return call('ZCARD', PREFIX .. 'barred:' .. task)
  end

  -- A job that was taken out of the line of its queue waits, with its own due time.
  function barring.bar(job)
    local more, task = more_of(job), task_of(job)
    job.due = lanes.own_due(job)
    lanes.leave(job)
    block(job)
    more.barred = task
    keep_more(job, more)
    append(plan.sorted_in, PREFIX .. 'barred:' .. task, job.arrival, job.id)
    lanes.look_again(job)
  end

  -- A job leaves the state that it waited in.
  function barring.clear(job)
    local more = more_of(job)
    append(plan.sorted_out, PREFIX .. 'barred:' .. more.barred, job.id)
    more.barred = nil
    keep_more(job, more)
  end

  -- Jobs of a task that is no longer blocked want to run again, so many in one step. True: there was such a task.
  function barring.bring_back()
    local task = call('SRANDMEMBER', barring.lifting)
    if not task then
      return false
    end
    local key = PREFIX .. 'barred:' .. task
    local ids = call('ZRANGE', key, 0, PASSED_IN_A_STEP - 1)
    load_many(ids)
    for _, id in ipairs(ids) do
      local job = find_job(id)
      if job and job.state == BLOCKED and more_of(job).barred == task then
        leave_state(job)
        wait_in_line(job, true)
        lanes.look_again(job)
      else
        append(plan.sorted_out, key, id) -- another program has left it there
      end
    end
    if #ids < PASSED_IN_A_STEP then
      append(plan.held_out, barring.lifting, task)
    end
    return true
  end
end
