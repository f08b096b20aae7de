-- The commands that people and their tools send now and then. Each takes `now` and the arguments after it, checks these,
-- and leaves the rest to a class. (Those that producers and workers send all the time have files of their own.)
local commands = Manage

-- All arguments from the first on, of which there must be one.
local function some(command, name, arguments)
  required(command, name, arguments[1])
  return arguments
end

local function from(arguments, first)
  local found = {}
  for i = first, #arguments do
    found[#found + 1] = arguments[i]
  end
  return found
end

-- config.get [option]
-- Reply: the option's text, or its default (an integer or a text), or nil; without option JSON object of all.
commands['config.get'] = function(_, arguments)
  if arguments[1] then
    return Qless.Config.get(arguments[1])
  end
  return cjson.encode(Qless.Config.all())
end

-- config.set option value. Reply: nil.
commands['config.set'] = function(_, arguments)
  local option = required('Config', 'option', arguments[1])
  Qless.Config.set(option, arguments[2] or required('Config', 'value'))
end

-- config.unset option. Reply: nil.
commands['config.unset'] = function(_, arguments)
  Qless.Config.unset(required('Config', 'option', arguments[1]))
end

-- requeue: the same as put, for a job that must exist.
commands['requeue'] = function(now, arguments)
  Qless.Holder.existing('Requeue', required('Requeue', 'jid', arguments[3]))
  return Qless.put(now, unpack(arguments))
end

-- peek queue count
-- Shows what a pop would consider, ended locks first; recurring and scheduled jobs do get in line.
-- Reply: JSON list of job objects.
commands['peek'] = function(now, arguments)
  local queue = required('Peek', 'queue', arguments[1])
  return cjson.encode(Qless.Pop.peek(now, queue, whole('Peek', 'count', arguments[2])))
end

-- multiget jid ...
-- Reply: JSON list of those job objects that there are, in the order asked for.
commands['multiget'] = function(_, arguments)
  local found = {}
  for _, jid in ipairs(arguments) do
    found[#found + 1] = Qless.Job.get(jid)
  end
  return cjson.encode(found)
end

-- failed [group [start [limit]]]
-- Reply: JSON object of groups and their sizes; with group JSON {total, jobs}, newest first.
commands['failed'] = function(_, arguments)
  if not arguments[1] then
    return cjson.encode(Qless.Failures.groups())
  end
  local start = whole('Failed', 'start', arguments[2] or 0)
  return cjson.encode(Qless.Failures.list(arguments[1], start, whole('Failed', 'limit', arguments[3] or 25)))
end

-- unfail queue group [count]
-- Puts the oldest failures of a group in line in a queue.
-- Reply: how many.
commands['unfail'] = function(now, arguments)
  local queue = required('Unfail', 'queue', arguments[1])
  local group = required('Unfail', 'group', arguments[2])
  return Qless.Failures.unfail(now, queue, group, whole('Unfail', 'count', arguments[3] or 25))
end

-- timeout jid ...
-- Takes running jobs from their workers and puts them at the front. All of them or, if one is not running, none.
-- Reply: nil.
commands['timeout'] = function(now, arguments)
  Qless.Change.time_out(now, some('Timeout', 'jid', arguments))
end

-- cancel jid ...
-- Removes jobs that are not complete. None, if a job that is not named depends on one of them.
-- Reply: list of the jids given.
commands['cancel'] = function(_, arguments)
  return Qless.Cancel.cancel(arguments)
end

-- depends jid on jid ... | off jid ... | off all
-- Changes what a job in the state `depends` waits for.
-- Reply: 1.
commands['depends'] = function(now, arguments)
  local jid = required('Depends', 'jid', arguments[1])
  local command = required('Depends', 'command', arguments[2])
  if command == 'on' then
    Qless.Dependencies.on(jid, from(arguments, 3))
  elseif command == 'off' then
    Qless.Dependencies.off(now, jid, arguments[3] ~= 'all' and from(arguments, 3) or nil)
  else
    -- The state is judged before the word.
    Qless.Dependencies.on(jid, {})
    error('Depends(): Argument "command" must be "on" or "off"')
  end
  return true
end

-- priority jid priority
-- Reply: the priority as a whole number.
commands['priority'] = function(_, arguments)
  local jid = required('Priority', 'jid', arguments[1])
  return Qless.Change.set_priority(jid, number('Priority', 'priority', arguments[2]))
end

-- log jid message [data]
-- Adds an entry to a job's history.
-- Reply: nil.
commands['log'] = function(now, arguments)
  local jid = required('Log', 'jid', arguments[1])
  local message = required('Log', 'message', arguments[2])
  local data = arguments[3] and json('Log', 'data', arguments[3])
  if data and type(data) ~= 'table' then
    error('Log(): Arg "data" not an object')
  elseif data and Qless.Values.is_deep(data) then
    error('Log(): Arg "data" nested too deeply')
  end
  Qless.Change.log(now, jid, message, data)
end

-- tag add|remove jid tag ...      Reply: JSON list of the job's tags.
-- tag get tag [offset [count]]    Reply: JSON {total, jobs}, by time of tagging.
-- tag top [offset [count]]        Reply: JSON list of tags used at least twice, most used first.
commands['tag'] = function(now, arguments)
  local command = required('Tag', 'command', arguments[1])
  if command == 'add' then
    return cjson.encode(Qless.Change.tag(now, required('Tag', 'jid', arguments[2]), from(arguments, 3)))
  elseif command == 'remove' then
    return cjson.encode(Qless.Change.untag(required('Tag', 'jid', arguments[2]), from(arguments, 3)))
  elseif command == 'get' then
    local tag = required('Tag', 'tag', arguments[2])
    local offset = whole('Tag', 'offset', arguments[3] or 0)
    return cjson.encode(Qless.Tags.jobs(tag, offset, whole('Tag', 'count', arguments[4] or 25)))
  elseif command == 'top' then
    local offset = whole('Tag', 'offset', arguments[2] or 0)
    return cjson.encode(Qless.Tags.top(offset, whole('Tag', 'count', arguments[3] or 25)))
  end
  error('Tag(): First argument must be "add", "remove", "get" or "top"')
end

-- track                       Reply: JSON {jobs: objects, expired: jids}, the longest tracked first.
-- track track|untrack jid     Reply: the text "1", or "0" if that was so already.
commands['track'] = function(now, arguments)
  if not arguments[1] then
    return cjson.encode(Qless.Tracking.list())
  end
  local command = string.lower(arguments[1])
  local jid = required('Track', 'jid', arguments[2])
  if command == 'track' then
    return tostring(Qless.Tracking.track(now, jid))
  elseif command == 'untrack' then
    return tostring(Qless.Tracking.untrack(jid))
  end
  error('Track(): Unknown action "' .. arguments[1] .. '"')
end

-- jobs complete [offset [count]]
-- jobs running|stalled|scheduled|depends|recurring queue [offset [count]]
-- Reply: list of jids.
commands['jobs'] = function(now, arguments)
  local state = required('Jobs', 'state', arguments[1])
  if state == 'complete' then
    local offset = whole('Jobs', 'offset', arguments[2] or 0)
    return Qless.Queue.complete_jobs(offset, whole('Jobs', 'count', arguments[3] or 25))
  end
  local queue = required('Jobs', 'queue', arguments[2])
  local offset = whole('Jobs', 'offset', arguments[3] or 0)
  return Qless.Queue.jobs(now, state, queue, offset, whole('Jobs', 'count', arguments[4] or 25))
end

-- queues [queue]
-- Reply: JSON object of counts; without queue a list of them for all known queues.
commands['queues'] = function(now, arguments)
  if arguments[1] then
    return cjson.encode(Qless.Queue.counts(now, arguments[1]))
  end
  return cjson.encode(Qless.Queue.all_counts(now))
end

-- length queue
-- Reply: how many jobs run, wait and are scheduled.
commands['length'] = function(_, arguments)
  return Qless.Queue.length(required('Length', 'queue', arguments[1]))
end

-- pause queue ...
-- Until `unpause` nobody gets jobs of these. Reply: nil.
commands['pause'] = function(_, arguments)
  Qless.Queue.pause(some('Pause', 'queue', arguments))
end

-- unpause queue ... Reply: nil.
commands['unpause'] = function(_, arguments)
  Qless.Queue.unpause(some('Unpause', 'queue', arguments))
end

-- queue.forget queue ...
-- They are no longer listed. Reply: nil.
commands['queue.forget'] = function(_, arguments)
  Qless.Queue.forget(some('QueueForget', 'queue', arguments))
end

-- stats queue date
-- Reply: JSON {retries, failed, failures, wait, run} of the day of `date`.
commands['stats'] = function(now, arguments)
  local queue = required('Stats', 'queue', arguments[1])
  return cjson.encode(Qless.Statistics.report(now, queue, number('Stats', 'date', arguments[2])))
end

-- workers [worker]
-- Reply: JSON {jobs, stalled} of one worker; without worker a list of counts, the most recently active first.
commands['workers'] = function(now, arguments)
  if arguments[1] then
    return cjson.encode(Qless.Worker.jobs(now, arguments[1]))
  end
  return cjson.encode(Qless.Worker.all_counts(now))
end

-- worker.deregister worker ... Reply: nil.
commands['worker.deregister'] = function(_, arguments)
  Qless.Worker.deregister(some('Deregister', 'worker', arguments))
end

-- recur queue jid klass data interval seconds offset [priority p] [tags list] [retries r] [backlog b]
-- A job that occurs again and again, first after `offset` seconds. One that exists is replaced and goes on counting.
-- Reply: the jid.
commands['recur'] = function(now, arguments)
  local new = {
    queue = required('Recur', 'queue', arguments[1]),
    jid = required('Recur', 'jid', arguments[2]),
    klass = required('Recur', 'klass', arguments[3]),
    data = required('Recur', 'data', arguments[4]),
  }
  json('Recur', 'data', new.data)
  if required('Recur', 'schedule type', arguments[5]) ~= 'interval' then
    error('Recur(): schedule type "' .. arguments[5] .. '" unknown')
  end
  if #arguments % 2 == 0 then
    error('Recur(): Odd number of additional args')
  end
  new.interval = number('Recur', 'interval', arguments[6])
  new.offset = number('Recur', 'offset', arguments[7])
  if new.interval <= 0 then
    error('Recur(): Arg "interval" must be greater than 0')
  end
  for i = 8, #arguments, 2 do
    local name, value = arguments[i], arguments[i + 1]
    if name == 'priority' or name == 'retries' or name == 'backlog' then
      new[name] = number('Recur', name, value)
    elseif name == 'tags' then
      new.tags = Qless.Values.list('Recur', 'tags', value)
    end
  end
  return Qless.Recurring.recur(now, new)
end

-- recur.get jid
-- Reply: JSON object of a recurring job, or nil.
commands['recur.get'] = function(_, arguments)
  local found = Qless.Recurring.get(required('RecurGet', 'jid', arguments[1]))
  return found and cjson.encode(found)
end

-- recur.update jid name value ...
-- Changes priority, retries, interval, data, klass, queue or backlog: all of them or, if one is refused, none.
-- Reply: 1.
commands['recur.update'] = function(now, arguments)
  local jid = required('RecurUpdate', 'jid', arguments[1])
  Qless.Recurring.existing('RecurUpdate', jid)
  local changes = {}
  for i = 2, #arguments, 2 do
    local name, value = arguments[i], arguments[i + 1]
    required('RecurUpdate', name, value)
    if name == 'priority' or name == 'retries' or name == 'interval' or name == 'backlog' then
      value = number('RecurUpdate', name, value)
      if name == 'interval' and value <= 0 then
        error('RecurUpdate(): Arg "interval" must be greater than 0')
      end
    elseif name == 'data' then
      json('RecurUpdate', 'data', value)
    elseif name ~= 'klass' and name ~= 'queue' then
      error('RecurUpdate(): Unrecognized option "' .. name .. '"')
    end
    changes[#changes + 1] = {name, value}
  end
  Qless.Recurring.update(now, jid, changes)
  return true
end

-- recur.tag jid tag ... Reply: JSON list of all its tags.
commands['recur.tag'] = function(_, arguments)
  return cjson.encode(Qless.Recurring.retag(required('RecurTag', 'jid', arguments[1]), 'with', from(arguments, 2)))
end

-- recur.untag jid tag ... Reply: JSON list of the tags left.
commands['recur.untag'] = function(_, arguments)
  return cjson.encode(Qless.Recurring.retag(required('RecurUntag', 'jid', arguments[1]), 'without', from(arguments, 2)))
end

-- unrecur jid. Reply: 1.
commands['unrecur'] = function(_, arguments)
  Qless.Recurring.unrecur(required('Unrecur', 'jid', arguments[1]))
  return true
end
