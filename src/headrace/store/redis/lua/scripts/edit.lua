-- edit: change waiting jobs. Whoever changes his queue, priority or time leaves his place and finds another.
--
-- ARGV[2..8]  queue, priority, run at, delay, body, options, data: '' or '=' and the value
-- ARGV[9]     '' or '=' and `expires` as in {ns}:more, in msgpack
-- ARGV[10]    the same in words, for the history
-- ARGV[11...] job ids
-- Answers     for each 1, or 0 if there is no such job, or it does not wait
--@include commit checks

check_format(call('HGET', META, 'format'))
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

local function edit(job)
  local due = moves and lanes.own_due(job)
  if moves then
    leave_state(job)
    change_queue(job, queue)
  end
  if data then
    local story = story_of(job)
    keep_data(job, story, data)
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
  if not moves then
    return
  end
  job.priority = priority or job.priority
  job.due = run_at or delay and now + delay or due
  if run_at or delay then
    local more = more_of(job)
    more.delay = delay and relations.waits(job) and delay or nil
    keep_more(job, more)
  end
  wait_in_line(job)
  lanes.look_again(job)
end

local ids = {}
for i = 11, #ARGV do
  ids[#ids + 1] = ARGV[i]
end
load_many(ids)
local answer = {}
for i, id in ipairs(ids) do
  local job = find_job(id)
  local waits = job and (job.state <= READY or job.state == BLOCKED)
  answer[i] = waits and 1 or 0
  if waits then
    edit(job)
  end
end
local worked = work_off()
if plan.changed[1] or worked then
  -- New values take memory: a full server refuses them, and with them all the rest.
  commit(function()
    call('HSET', META, 'format', '2')
  end)
end
return answer
