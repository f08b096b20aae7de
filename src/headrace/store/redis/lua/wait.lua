-- Sessions that sleep, and how they are woken.
--@include hungry

local slept_on

-- The patterns that sessions sleep on.
local function sleepers_patterns()
  slept_on = slept_on or call('ZRANGE', PATTERNS, 0, 999)
  return slept_on
end

-- What sessions that are hungry for work in a queue are registered under: its name, and patterns that mean it.
local function listening_to(queue)
  local names = { queue }
  for _, pattern in ipairs(sleepers_patterns()) do
    if pattern ~= queue and patterns.matches(pattern, queue) then
      names[#names + 1] = pattern
    end
  end
  return names
end

-- Which sleepers are woken by news (queue -> how many jobs): name of a queue or pattern -> how many of them. Where
-- there are very many queues and patterns it is not found out which fit: a hint too many does no harm.
local COMPARED_AT_MOST, WOKEN_AT_MOST = 10000, 16

local function to_be_woken(news)
  local sleepers, many = {}, 0
  local function add(name, number)
    if number > 0 and check_type(PREFIX .. 'hungry:' .. name, 'zset') then
      sleepers[name] = math.min(number + (sleepers[name] or 0), WOKEN_AT_MOST)
    end
  end
  local globs, queues = sleepers_patterns(), {}
  for queue in pairs(globs[1] and news or {}) do
    many = many + 1
    queues[many] = queue
  end
  local too_many = many * #globs > COMPARED_AT_MOST
  for _, pattern in ipairs(too_many and {} or globs) do
    patterns.learn(pattern, queues)
  end
  for queue, number in pairs(news) do
    for _, name in ipairs(too_many and { queue } or number > 0 and listening_to(queue) or {}) do
      add(name, number)
    end
  end
  for _, pattern in ipairs(too_many and globs or {}) do
    add(pattern, WOKEN_AT_MOST)
  end
  return sleepers
end

local waking = {} -- (a script may have 200 names)

-- Urgent jobs (queue -> the highest priority) for which no sleeper is woken: a session is rung that has a line of less urgent ones.
function waking.rings_due(urgent, news, sleepers)
  local rung = {}
  for queue, priority in pairs(urgent) do
    local is_wanted = news[queue] > 0 and check_type(PREFIX .. 'urgent:' .. queue, 'zset')
    for _, name in ipairs(is_wanted and listening_to(queue) or {}) do
      is_wanted = is_wanted and not sleepers[name]
    end
    rung[queue] = is_wanted and priority or nil
  end
  return rung
end

-- Publishing is a courtesy: a user who may not do it gets jobs done all the same.
function waking.publish(channel, message)
  local number = redis.pcall('PUBLISH', PREFIX .. channel, message or '')
  return type(number) == 'number' and number or 0
end

-- Wakes the waiters for the end of jobs.
local function wake_job_waiters(ids)
  local until_when = read_many('ZMSCORE', WATCHED, ids)
  for i, id in ipairs(ids) do
    if until_when[i] then
      waking.publish('ended:' .. id)
    end
  end
end

-- To a session that may be asleep: on its channel, and in the list that it is blocked on if it waits and takes in one. False: it
-- does not listen here. Its process is gone, or on a cluster it listens at another node, as it does for a moment after our keys have moved;
-- for that it is rung for all the same.
local function rouse(session)
  local listens = waking.publish('wake:' .. session) > 0
  local bell = PREFIX .. 'bell:' .. session
  call('DEL', bell) -- once is enough
  call('RPUSH', bell, '1')
  call('PEXPIRE', bell, 60000)
  return listens
end

-- As many sessions that sleep for a queue, or for a pattern, as there are jobs for them. One that does not listen does not
-- count. A hint carries no job.
local function wake(name, number)
  local key = PREFIX .. 'hungry:' .. name
  local woken = 0
  for _ = 1, 64 do
    if woken >= number then
      return
    end
    local session = call('ZPOPMIN', key)[1]
    if not session then
      return
    end
    if rouse(session) then
      woken = woken + 1
    end
  end
end

-- One session that has a line of jobs of a lower priority, the lowest first: it takes the urgent job before it goes on with these.
function waking.ring(queue, priority)
  local key = PREFIX .. 'urgent:' .. queue
  for _ = 1, WOKEN_AT_MOST do
    local session = call('ZRANGEBYSCORE', key, '-inf', string.format('(%.0f', priority), 'LIMIT', 0, 1)[1]
    if not session then
      return
    end
    call('ZREM', key, session)
    if waking.publish('wake:' .. session, '!') > 0 then
      return
    end
  end
end

-- Events. The stream {ns}:events is there while there are subscribers: without them nothing is written.
--
--   e   d at, H what, H job id, H task, H queue, H worker, H detail, B tracked; empty in the entry that a listener begins with
local EVENTS = PREFIX .. 'events'
local EVENTS_KEPT, DETAIL_SIZE = 10000, 1000
local subscribed = nil
local events_to_publish = {}

-- Asked once in a script, however often it matters.
local function has_subscribers()
  if subscribed == nil then
    subscribed = not absent[EVENTS] and call('EXISTS', EVENTS) == 1 and check_type(EVENTS, 'stream')
  end
  return subscribed
end

-- What happened to a job whose record, or template of one, has the names of its queue and its task at `at`.
local function happened_to(id, record, at, what, detail, worker, tracked)
  local good, queue, task = pcall(unpack_from, '>Hc0Hc0', record, at)
  if not good then
    fail_damaged(id)
  end
  detail = detail:sub(1, DETAIL_SIZE)
  events_to_publish[#events_to_publish + 1] = pack('>dHc0Hc0Hc0Hc0Hc0Hc0B', now, #what, what, #id, id, #task, task, #queue, queue,
    #worker, worker, #detail, detail, tracked and 1 or 0)
end

-- Written last. Events are a courtesy: a user who may not write to streams gets jobs done all the same.
local function publish_events()
  for _, event in ipairs(events_to_publish) do
    redis.pcall('XADD', EVENTS, 'MAXLEN', '~', EVENTS_KEPT, '*', 'e', event)
  end
end
--@include patterns
