-- edit: change waiting jobs. One that gets another queue, priority or time leaves its place and finds another.
--
-- ARGV[2..8]  queue, priority, run at, delay, body, options, data: '' or '=' and the value
-- ARGV[9]     '' or '=' and `expires` as in {ns}:more, in msgpack
-- ARGV[10]    the same in words, for the history
-- ARGV[11...] job ids
-- Answers     for each 1, or 0 if there is no such job, or it does not wait
--@include current acts

local function given(i)
  return ARGV[i] ~= '' and ARGV[i]:sub(2) or nil
end

local queue, body, options, data = given(2), given(6), given(7), given(8)
local priority, run_at, delay = tonumber(given(3)), tonumber(given(4)), tonumber(given(5))
local expires = given(9) and cmsgpack.unpack(given(9))
if expires then
  checks.expires(expires, 'these jobs')
end
local moves = queue or priority or run_at or delay

return act_on(arguments(11), unless_full, function(job)
  if job.state > READY and job.state ~= BLOCKED then
    return false
  end
  local due, was_due = moves and lanes.own_due(job), not run_at and not delay and not lanes.is_later(job)
  if moves then
    leave_state(job)
    change_queue(job, queue)
  end
  if data then
    local story = story_of(job)
    keep_value(job, story, 'data', data)
    tell(job, story)
  end
  move(job, { queue = queue, body = body, options = options })
  change(job)
  if expires then
    local more = more_of(job)
    more.expires = expires
    keep_more(job, more)
    expiring.begin(job, lanes.own_due(job))
  end
  remember(job, now, 'edited', ARGV[10], '')
  happened(job, 'edited', ARGV[10])
  if moves then
    job.priority = priority or job.priority
    job.due = run_at or delay and now + delay or due
    if run_at or delay then
      local more = more_of(job)
      more.delay = delay and relations.waits(job) and delay or nil
      keep_more(job, more)
    end
    wait_in_line(job, was_due)
    lanes.look_again(job)
  end
  return true
end)
