-- The commands that producers and workers send all the time. Each takes `now` and the arguments after it, checks the
-- arguments, and leaves the rest to a class. `Commands` looks here first, so that the others cost these nothing.

-- What put and requeue are given, checked.
local function new_job(command, arguments)
  local new = {
    worker = arguments[1],
    queue = required(command, 'queue', arguments[2]),
    jid = required(command, 'jid', arguments[3]),
    klass = required(command, 'klass', arguments[4]),
    data = required(command, 'data', arguments[5]),
    delay = number(command, 'delay', arguments[6]),
  }
  json(command, 'data', new.data)
  local last = #arguments
  if last % 2 == 1 then
    error(command .. '(): Odd number of additional args')
  end
  for i = 7, last, 2 do
    local name, value = arguments[i], arguments[i + 1]
    if name == 'priority' or name == 'retries' then
      new[name] = number(command, name, value)
    elseif name == 'tags' or name == 'depends' then
      new[name] = value == '[]' and {} or Qless.Values.list(command, name, value)
    end
  end
  return new
end

Qless.Work = {
  -- put worker queue jid klass data delay [priority p] [tags list] [retries r] [depends list]
  -- Puts a job into a queue. One that is there already moves, and keeps what is not given (an empty list of dependencies
  -- is none given). `worker` is who calls.
  -- Reply: the jid.
  put = function(now, arguments)
    return Qless.Put.put(now, new_job('Put', arguments))
  end,

  -- requeue: the same as put, for a job that must exist.
  requeue = function(now, arguments)
    return Qless.Put.requeue(now, new_job('Requeue', arguments))
  end,

  -- pop queue worker count
  -- Hands up to `count` jobs to a worker: first those whose locks have ended twice, then the line, into which
  -- recurring and scheduled jobs get when they are due. A paused queue gives nothing and does nothing.
  -- Reply: JSON list of job objects.
  pop = function(now, arguments)
    local queue = required('Pop', 'queue', arguments[1])
    local worker = required('Pop', 'worker', arguments[2])
    local count = floor(number('Pop', 'count', arguments[3]))
    return encode(Qless.Pop.pop(now, queue, worker, count))
  end,

  -- heartbeat jid worker [data]
  -- Extends the lock of the worker that holds the job, and stores data if given.
  -- Reply: when the lock will end, in whole seconds. An error if the job is not the worker's.
  heartbeat = function(now, arguments)
    local jid = required('Heartbeat', 'jid', arguments[1])
    local worker = required('Heartbeat', 'worker', arguments[2])
    if arguments[3] then
      json('Heartbeat', 'data', arguments[3])
    end
    return Qless.Job.heartbeat(now, jid, worker, arguments[3])
  end,

  -- complete jid worker queue data [next queue] [delay seconds] [depends list]
  -- Ends a run well. With `next` the job goes on there, and jobs that depend on it go on waiting.
  -- Reply: `complete`, or the state in the next queue: `waiting`, `scheduled` or `depends`.
  complete = function(now, arguments)
    local jid = required('Complete', 'jid', arguments[1])
    local worker = required('Complete', 'worker', arguments[2])
    local queue = required('Complete', 'queue', arguments[3])
    local data = required('Complete', 'data', arguments[4])
    json('Complete', 'data', data)
    local to, delay, depends
    for i = 5, #arguments - 1, 2 do
      local name, value = arguments[i], arguments[i + 1]
      if name == 'next' then
        to = value ~= '' and value or nil
      elseif name == 'delay' then
        delay = number('Complete', 'delay', value)
      elseif name == 'depends' then
        depends = Qless.Values.list('Complete', 'depends', value)
      end
    end
    if not to and delay then
      error('Complete(): "delay" cannot be used without a "next".')
    elseif not to and depends then
      error('Complete(): "depends" cannot be used without a "next".')
    end
    return Qless.Completion.complete(now, jid, worker, queue, data, to, delay or 0, depends)
  end,

  -- fail jid worker group message [data]
  -- Ends a run badly: the job waits among the failed ones of a group for somebody to look at it.
  -- Reply: the jid.
  fail = function(now, arguments)
    local jid = required('Fail', 'jid', arguments[1])
    local worker = required('Fail', 'worker', arguments[2])
    local group = required('Fail', 'group', arguments[3])
    local message = arguments[4] or required('Fail', 'message')
    if arguments[5] then
      json('Fail', 'data', arguments[5])
    end
    return Qless.Failures.fail(now, jid, worker, group, message, arguments[5])
  end,

  -- retry jid queue worker [delay [group [message]]]
  -- Gives a job back for another attempt, after a delay. Without attempts left it fails.
  -- Reply: how many attempts are left; -1: it has failed.
  retry = function(now, arguments)
    local jid = required('Retry', 'jid', arguments[1])
    local queue = required('Retry', 'queue', arguments[2])
    local worker = required('Retry', 'worker', arguments[3])
    local delay = number('Retry', 'delay', arguments[4] or 0)
    local group = arguments[5] ~= '' and arguments[5] or nil
    return Qless.Failures.retry(now, jid, queue, worker, delay, group, arguments[6])
  end,

  -- get jid
  -- Reply: JSON job object, or nil.
  get = function(_, arguments)
    local job = Qless.Job.get(required('Get', 'jid', arguments[1]))
    return job and encode(job)
  end,
}
return Qless.Work
