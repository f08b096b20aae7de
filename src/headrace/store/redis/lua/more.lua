-- What only some jobs have, as a table: kept in {ns}:more as msgpack, and MORE in the flags says that it is there.
--
--   after      how many jobs it comes after            if_failed  'wait', 'fail' (if it is not there) or 'run'
--   lane       {key, limit, rate, per, sequence}       tags       a list
--   tracked    true                                    schedule, tick
--   delay      how long it is put off when the last job that it waits for has come to an end (none: its due time stays)
--   precedes   a number: others wait for it (see relations.lua)
--   followed   true: others come after it              resumed    true: it has waited for children, and `after` is those
--   start_within  its lane has a rate: how many milliseconds its last worker had, from its take on, to start it
--   joining    the batch whose next parts bring more jobs that it comes after (see joining.lua)
--
-- Which jobs it comes after is in {ns}:after, H id each: they may be thousands, and are read only when they are asked for.
local MORE_KEY, AFTER = PREFIX .. 'more', PREFIX .. 'after'
local more_seen = {}

more_of = function(job)
  if band(job.flags, MORE) == 0 then
    return {}
  end
  local more = plan.more[job.id] or more_seen[job.id]
  if not more then
    local packed = call('HGET', MORE_KEY, job.id)
    local good, found = pcall(cmsgpack.unpack, packed or '')
    if not good or type(found) ~= 'table' then
      fail_damaged(job.id, job.queue, job.arrival)
    end
    more = found
    more_seen[job.id] = more
  end
  return more
end

-- Keep what a job has of this, or that it has nothing of it any more.
local function keep_more(job, more)
  if next(more) == nil then
    job.flags = without(job.flags, MORE)
    plan.more[job.id] = false
  else
    job.flags = with(job.flags, MORE)
    plan.more[job.id] = more
  end
end

-- As bytes, as it is or will be.
local function packed_more(id)
  local more = plan.more[id]
  return more and cmsgpack.pack(more) or call('HGET', MORE_KEY, id)
end

-- Tell those who listen, if anybody does, what happened to a job, as it is now. Who removes it tells so before.
local function happened(job, what, detail, worker)
  if somebody_listens() then
    happened_to(job.id, job.put, 1, what, detail or '', worker or '', more_of(job).tracked)
  end
end
