-- What headrace's clients do: put, look, cancel, delete, revive.

-- How many jobs of each place are looked at in one call.
local MOST = 1000

-- put jobs
-- A job that is there already is left alone: this is a repeat. Jobs of one batch would stand in the line by their jids,
-- being put at the same time: each is said to have been put a little before the next, so that they keep their order.
function Clients.put(now, jobs)
  for i, new in ipairs(jobs) do
    if not call('HGET', 'ql:j:' .. new.jid, 'jid') then
      local before = (#jobs - i) * 0.00002
      local delay = new.at and new.at - now or new.delay
      Qless.Put.put(now - before, 'headrace', new.queue, new.jid, new.klass, new.data, delay > 0 and delay + before or 0,
        new.priority, new.tags, new.retries, new.after)
      if new.ours then
        call('HMSET', 'ql:j:' .. new.jid, unpack(new.ours))
      end
    end
  end
end

-- get jids
-- Reply: JSON list, `false` for jobs that there are not.
function Clients.get(_, jids)
  local found = {}
  for i, jid in ipairs(jids) do
    local job = Qless.Job.get(jid)
    if job then
      Qless.Sessions.add_fields(job)
      job.due = job.queue and stored_number(call('ZSCORE', 'ql:q:' .. job.queue .. '-scheduled', jid), false)
    end
    found[i] = job or false
  end
  return found
end

local PLACES = {ready = '-work', scheduled = '-scheduled', running = '-locks', blocked = '-depends'}

-- list window states [queue] [group] [tag] [tracked] [worker]
-- Jids of jobs among which are those wanted: of a tag, of the tracked ones, of a worker, or of these states, in one
-- queue or all, in one failure group or all. From each place the newest, in the next window those behind them.
-- Reply: JSON {jids, more}: whether a place has more.
function Clients.list(_, wanted)
  local group, found, more = wanted.group, {}, false
  local first = wanted.window * MOST
  local function look(command, place)
    local jids = call(command, place, first, first + MOST - 1)
    for _, jid in ipairs(jids) do
      found[#found + 1] = jid
    end
    more = more or #jids == MOST
  end
  if wanted.tag then
    look('ZREVRANGE', 'ql:t:' .. wanted.tag)
  elseif wanted.tracked then
    look('ZREVRANGE', 'ql:tracked')
  elseif wanted.worker then
    look('ZREVRANGE', 'ql:w:' .. wanted.worker .. ':jobs')
  else
    local queues = wanted.queue and {wanted.queue} or call('ZRANGE', 'ql:queues', 0, -1)
    for _, state in ipairs(wanted.states) do
      if state == 'done' then
        look('ZREVRANGE', 'ql:completed')
      elseif state == 'failed' then
        for _, name in ipairs(group and {group} or call('SMEMBERS', 'ql:failures')) do
          look('LRANGE', 'ql:f:' .. name)
        end
      elseif PLACES[state] then
        for _, name in ipairs(queues) do
          look('ZREVRANGE', 'ql:q:' .. name .. PLACES[state])
        end
      end
    end
  end
  return {jids = found, more = more}
end

-- counts
-- Reply: JSON {queues, failed}: counts of all queues, and failed jobs by queue.
function Clients.counts(now)
  local failed = {}
  for _, group in ipairs(call('SMEMBERS', 'ql:failures')) do
    for _, jid in ipairs(call('LRANGE', 'ql:f:' .. group, 0, 9999)) do
      local queue = call('HGET', 'ql:j:' .. jid, 'queue') or ''
      failed[queue] = (failed[queue] or 0) + 1
    end
  end
  return {queues = Qless.Queue.all_counts(now), failed = failed}
end

-- cancel jids
-- Reply: a list, 1 for those that are cancelled; or {needed, by}, and nothing done, if another job depends on one of them.
function Clients.cancel(_, jids)
  local answers, known, seen = {}, {}, {}
  for i, jid in ipairs(jids) do
    local state = call('HGET', 'ql:j:' .. jid, 'state')
    answers[i] = state and state ~= 'complete' and 1 or 0
    if answers[i] == 1 and not seen[jid] then
      seen[jid] = true
      known[#known + 1] = jid
    end
  end
  local needed, by = Qless.Cancel.needed(known)
  if needed then
    return {needed = needed, by = by}
  end
  Qless.Cancel.cancel(known)
  return answers
end

-- delete jids
-- The same, and for completed jobs too.
function Clients.delete(now, jids)
  local answers = Clients.cancel(now, jids)
  if answers.needed then
    return answers
  end
  local seen = {}
  for i, jid in ipairs(jids) do
    if seen[jid] then
      answers[i] = 0
    elseif answers[i] == 0 and call('EXISTS', 'ql:j:' .. jid) == 1 then
      Qless.After.purge({jid}, 0)
      answers[i] = 1
    end
    seen[jid] = true
  end
  return answers
end

-- revive jids
-- Failed jobs get back in line in the queue in which they failed. Reply: a list, 1 for those that were such.
function Clients.revive(now, jids)
  local answers = {}
  for i, jid in ipairs(jids) do
    local state, queue, klass, data = unpack(call('HMGET', 'ql:j:' .. jid, 'state', 'queue', 'klass', 'data'))
    answers[i] = state == 'failed' and 1 or 0
    if state == 'failed' then
      Qless.Put.put(now, 'headrace', queue, jid, klass, data, 0)
    end
  end
  return answers
end

-- queues
-- Reply: JSON list of the names of all queues.
function Clients.queues()
  return call('ZRANGE', 'ql:queues', 0, -1)
end

-- workers
-- Reply: JSON list of {name, jobs, stalled, seen, info}: `info` is what a session of ours has said of itself.
function Clients.workers(now)
  local found = Qless.Worker.all_counts(now)
  for _, worker in ipairs(found) do
    worker.seen = stored_number(call('ZSCORE', 'ql:workers', worker.name), 0)
    worker.info = Qless.Sessions.info(worker.name)
  end
  return found
end
