-- Schedules, in {ns}:schedules: name -> record.
--
--   I version, B flags, B overlap (0 allow, 1 skip, 2 queue, 3 replace), I6 created, I6 next, I runs, I max_runs (0: any
--   number), I6 last_tick, I6 started, I6 finished, H last_job, H queue, I data, I definition, H pause (when and by whom)
--
-- Of the definition, which is the client's, the scripts know only what is in the record as well.
--@include admission

makers[schedules] = function()
  schedules.key, schedules.names = PREFIX .. 'schedules', PREFIX .. 'schedule_names'
  schedules.FORMAT = '>IBBI6I6III6I6I6Hc0Hc0Ic0Ic0Hc0'
  schedules.PAUSED, schedules.NEXT, schedules.LAST_TICK, schedules.STARTED = 1, 2, 4, 8
  schedules.FINISHED, schedules.DATA, schedules.FOLLOWS, schedules.CARRY = 16, 32, 64, 128

  function schedules.parse(name, bytes)
    local good, version, flags, overlap, created, next_, runs, max_runs, last_tick, started, finished, last_job, queue, data,
      definition, pause = pcall(unpack_from, schedules.FORMAT, bytes)
    if not good then
      fail('CORRUPT', schedules.key .. ' has no schedule in field ' .. name)
    end
    return {
      name = name, version = version, flags = flags, overlap = overlap, created = created, next = next_, runs = runs,
      max_runs = max_runs, last_tick = last_tick, started = started, finished = finished, last_job = last_job, queue = queue,
      data = data, definition = definition, pause = pause,
    }
  end

  function schedules.serialize(record)
    return pack(
      schedules.FORMAT, record.version, record.flags, record.overlap, record.created, record.next, record.runs,
      record.max_runs, record.last_tick, record.started, record.finished, #record.last_job, record.last_job, #record.queue,
      record.queue, #record.data, record.data, #record.definition, record.definition, #record.pause, record.pause)
  end

  -- A schedule as it is, or as a plan will have it.
  function schedules.find(name)
    local record = plan.schedules[name]
    if record == nil then
      local bytes = call('HGET', schedules.key, name)
      record = bytes and schedules.parse(name, bytes)
    end
    return record
  end

  -- A schedule as its next version. It is news for the workers of its queue if it ticks before all others.
  function schedules.keep(record)
    record.version = record.version + 1
    plan.schedules[record.name] = record
    if band(record.flags, schedules.NEXT + schedules.PAUSED) == schedules.NEXT
      and (not plan.earliest_tick or record.next < plan.earliest_tick) then
      plan.earliest_tick, plan.earliest_tick_queue = record.next, record.queue
    end
  end

  -- A job of a schedule has come to an end, or is about to be removed before it has.
  function schedules.job_ended(job)
    local name = more_of(job).schedule
    local record = name and schedules.find(name)
    if not record or record.last_job ~= job.id then
      return
    end
    local ended = job.state >= DONE
    local carries = ended and band(record.flags, schedules.CARRY) ~= 0 and band(job.flags, HAS_DATA) ~= 0
    local follows = band(record.flags, schedules.FOLLOWS) ~= 0
      and band(record.flags, schedules.NEXT + schedules.FINISHED) == 0
    if carries then
      record.data = value_of(job, story_of(job), 'data')
      record.flags = with(record.flags, schedules.DATA)
    end
    if follows then
      record.next, record.started, record.finished = now, job.started, ended and job.finished or now
      record.flags = with(record.flags, schedules.NEXT + schedules.FINISHED + (job.started > 0 and schedules.STARTED or 0))
    end
    if carries or follows then
      schedules.keep(record)
    end
  end

  -- Before the first write.
  function schedules.check()
    check_type(schedules.key, 'hash')
    check_type(schedules.names, 'zset')
    check_type(TICKS, 'zset')
    local head = call('ZRANGE', TICKS, 0, 0, 'WITHSCORES')[2]
    if plan.earliest_tick and (not head or plan.earliest_tick < tonumber(head)) then
      plan.news[plan.earliest_tick_queue] = 16
    end
  end

  function schedules.write()
    for name, record in pairs(plan.schedules) do
      if record then
        call('HSET', schedules.key, name, schedules.serialize(record))
        call('ZADD', schedules.names, 0, name)
      else
        call('HDEL', schedules.key, name)
        call('ZREM', schedules.names, name)
      end
      if record and band(record.flags, schedules.NEXT + schedules.PAUSED) == schedules.NEXT then
        call('ZADD', TICKS, record.next, name)
      else
        call('ZREM', TICKS, name)
      end
    end
  end
end
