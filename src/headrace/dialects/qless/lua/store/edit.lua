-- What people do to jobs and queues through headrace, beyond putting and cancelling: relations, tags, edits, controls.

local WAITING = {waiting = true, stalled = true, scheduled = true, depends = true}

-- How many jobs are looked at to see whether one would wait for itself.
local DEEPEST = 10000
-- How many of something are named to people.
local SHOWN = 10

-- Put a waiting job again: in another queue, at another time, or after other jobs. All else stays as it is.
local function put_again(now, jid, to, at, depends)
  local key = 'ql:j:' .. jid
  local queue, klass, data, remaining, kept = unpack(
    call('HMGET', key, 'queue', 'klass', 'data', 'remaining', 'scheduled'))
  -- Test traffic stays test traffic.
  if to and queue:sub(1, 1) == '~' and to:sub(1, 1) ~= '~' then
    to = '~' .. to
  end
  at = at or stored_number(kept) or stored_number(call('ZSCORE', 'ql:q:' .. queue .. '-scheduled', jid))
  Qless.Put.put(now, 'headrace', to or queue, jid, klass or '', data or '{}', at and at - now or 0, nil, nil, nil, depends)
  call('HSET', key, 'remaining', remaining or 5)
end

-- Whether one of the jobs, or one that they wait for by whatever detour, is this one: 0 no, 1 yes, 2 too many to tell.
local function leads_to(jid, jids)
  local seen, line, at = {}, {}, 1
  local function add(others)
    for _, other in ipairs(others) do
      if not seen[other] then
        seen[other] = true
        line[#line + 1] = other
      end
    end
  end
  add(jids)
  while line[at] do
    if line[at] == jid then
      return 1
    elseif #line > DEEPEST then
      return 2
    end
    add(call('SMEMBERS', 'ql:j:' .. line[at] .. '-dependencies'))
    at = at + 1
  end
  return 0
end

-- What a job comes after, as it was put and changed since: met ones are in no set of Qless' any more.
local function remember_after(key, add, remove)
  local after = Qless.Tags.without(Qless.Tags.with(Qless.Values.stored(call('HGET', key, 'headrace-after')), add), remove)
  call('HSET', key, 'headrace-after', cjson.encode(after))
end

-- depend jid add remove
-- Reply: JSON {done, cycle}: whether the job waits, so that it could be changed; 1 if it would wait for itself, 2 if
-- there are too many jobs to see that.
function Edit.depend(now, jid, add, remove)
  local key = 'ql:j:' .. jid
  local state = call('HGET', key, 'state')
  if not WAITING[state] then
    return {done = false}
  end
  local cycle = leads_to(jid, add)
  if cycle > 0 then
    return {done = false, cycle = cycle}
  end
  local waits_for = Qless.Dependencies.unsatisfied(jid, add)
  remember_after(key, add, remove)
  if state == 'depends' then
    Qless.Dependencies.add(jid, waits_for)
    Qless.Dependencies.off(now, jid, remove)
  elseif waits_for[1] then
    put_again(now, jid, nil, nil, waits_for)
  end
  return {done = true}
end

-- Act on those jobs that there are, with their states. A list, 1 for those where that was done.
local function each(jids, act)
  local answers = {}
  for i, jid in ipairs(jids) do
    local state = call('HGET', 'ql:j:' .. jid, 'state')
    answers[i] = state and act(jid, state) and 1 or 0
  end
  return answers
end

-- tag jids add remove
-- Reply: a list, 1 for jobs that there are. A tag that is both removed and added stays.
function Edit.tag(now, jids, add, remove)
  return each(jids, function(jid)
    Qless.Change.untag(jid, Qless.Tags.without(remove, add))
    return Qless.Change.tag(now, jid, add)
  end)
end

-- tags limit
-- Reply: JSON list of {tag, number of jobs}, most first, then by name. (`tag top` leaves out what is used once.)
function Edit.tags(_, limit)
  local top = call('ZREVRANGEBYSCORE', 'ql:tags', '+inf', 1, 'WITHSCORES', 'LIMIT', 0, limit)
  local least, found = top[#top], {}
  for i = 1, #top, 2 do
    if top[i + 1] ~= least then
      found[#found + 1] = {top[i], tonumber(top[i + 1])}
    end
  end
  -- Of those that are used least the first by name are wanted, not the last.
  for _, tag in ipairs(least and call('ZRANGEBYSCORE', 'ql:tags', least, least, 'LIMIT', 0, limit - #found) or {}) do
    found[#found + 1] = {tag, tonumber(least)}
  end
  return found
end

-- track jids on
-- Reply: a list, 1 for jobs that there are.
function Edit.track(now, jids, on)
  return each(jids, function(jid)
    return on and Qless.Tracking.track(now, jid) or Qless.Tracking.untrack(jid)
  end)
end

-- controls
-- Reply: JSON {paused, limits}: names of queues, and numbers by name.
function Edit.controls()
  local limits = {}
  for name, value in pairs(Qless.Values.hash('ql:config')) do
    local queue, limit = string.match(name, '^(.+)%-max%-concurrency$'), option(value)
    if queue and limit and limit > 0 then
      limits[queue] = math.floor(limit)
    end
  end
  return {paused = call('SMEMBERS', 'ql:paused_queues'), limits = limits}
end

-- pause queue command
-- Adds a queue to the paused ones (SADD), or removes it (SREM). Reply: 1, or 0 if that was so already.
function Edit.pause(_, queue, command)
  return call(command, 'ql:paused_queues', queue)
end

-- edit jobs queue priority at delay options
-- Each job is {jid, expected, data, said}; with `data`, it must have the data that are expected.
-- Reply: a list, 1 for those that are changed, 0 for those that do not wait, 2 for those that have other data by now.
function Edit.edit(now, jobs, change)
  local answers = {}
  for i, job in ipairs(jobs) do
    local jid, key = job.jid, 'ql:j:' .. job.jid
    local state, data = unpack(call('HMGET', key, 'state', 'data'))
    if not WAITING[state] then
      answers[i] = 0
    elseif job.data and data ~= job.expected then
      answers[i] = 2
    else
      if job.data then
        call('HMSET', key, 'data', job.data, 'headrace', job.said)
      end
      if change.options then
        call('HSET', key, 'headrace-options', change.options)
      end
      if change.queue or change.at or change.delay then
        put_again(now, jid, change.queue, change.delay and now + change.delay or change.at)
      end
      if change.priority then
        Qless.Change.set_priority(jid, change.priority)
      end
      answers[i] = 1
    end
  end
  return answers
end

-- take_back jids
-- Reply: a list, 1 for those that were running.
function Edit.take_back(now, jids)
  return each(jids, function(jid, state)
    if state == 'running' then
      Qless.Change.time_out(now, {jid})
      return true
    end
  end)
end

-- log jids line
-- Adds a line to the histories of jobs. Reply: a list, 1 for jobs that there are.
function Edit.log(now, jids, line)
  return each(jids, function(jid)
    Qless.Change.log(now, jid, line, {log = true})
    return true
  end)
end

-- peek queue limit
-- Reply: JSON list of jids in the order in which they would be handed out. (A peek shows jobs whose locks have ended,
-- too: these come on top of the limit, and do not stand in line.)
function Edit.peek(now, queue, limit)
  local found = {}
  local ended = call('ZCOUNT', 'ql:q:' .. queue .. '-locks', '-inf', now)
  for _, job in ipairs(Qless.Pop.peek(now, queue, limit + math.min(ended, Qless.CHUNK))) do
    if job.state ~= 'running' and #found < limit then
      found[#found + 1] = job.jid
    end
  end
  return Qless.Clients.get(now, found)
end

-- circumstances jid
-- Reply: JSON {job, waits_for, paused, limit, running, runs}, or an empty object if there is no such job.
function Edit.circumstances(now, jid)
  local job = Qless.Clients.get(now, {jid})[1]
  if not job then
    return {}
  end
  local waits_for, running, runs, queue = {}, {}, 0, job.queue or ''
  for i = 1, math.min(#job.dependencies, SHOWN) do
    waits_for[i] = {job.dependencies[i], call('HGET', 'ql:j:' .. job.dependencies[i], 'state')}
  end
  local limit = option(call('HGET', 'ql:config', queue .. '-max-concurrency'), 0)
  if limit > 0 then
    runs = call('ZCOUNT', 'ql:q:' .. queue .. '-locks', now, '+inf')
    for i, other in ipairs(call('ZRANGEBYSCORE', 'ql:q:' .. queue .. '-locks', now, '+inf', 'LIMIT', 0, SHOWN)) do
      running[i] = {other, call('HGET', 'ql:j:' .. other, 'worker') or ''}
    end
  end
  return {
    job = job,
    waits_for = waits_for,
    paused = call('SISMEMBER', 'ql:paused_queues', queue) == 1,
    limit = math.floor(limit),
    running = running,
    runs = runs,
  }
end

-- dependants jid limit
-- Reply: JSON list of {jid, state} of jobs that wait for this one.
function Edit.dependants(_, jid, limit)
  local found = {}
  for _, other in ipairs(call('SMEMBERS', 'ql:j:' .. jid .. '-dependents')) do
    local state = #found < limit and call('HGET', 'ql:j:' .. other, 'state')
    if state then
      found[#found + 1] = {other, state}
    end
  end
  return found
end

-- settings changes
-- With changes, a list of {option, value or nothing}, sets or unsets them. Reply: JSON object of all that is stored.
function Edit.settings(_, changes)
  for _, change in ipairs(changes) do
    if change[2] then
      Qless.Config.set(change[1], change[2])
    else
      Qless.Config.unset(change[1])
    end
  end
  return Qless.Values.hash('ql:config')
end
