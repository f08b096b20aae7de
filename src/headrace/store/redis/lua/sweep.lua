-- sweep: bounded upkeep. Ends expired sessions, purges what retention has given up, forgets old watchers and empty lanes.
--
-- ARGV[2..4]  milliseconds to keep done jobs, failed and cancelled ones, and how many done ones, in place of what the settings
--             say; each may be empty or left out
-- ARGV[5]     do nothing if such a sweep was done less than so many milliseconds ago; may be empty or left out
-- Answers     {sessions closed, jobs returned, jobs purged, 1 if there is more to do, in how many milliseconds the next
--             schedule ticks or -1, how many of those purged were failed ones that made room before their time, in how many
--             milliseconds to come again (0 if ARGV[5] does not say how often there is to be a sweep), and a batch of which parts have not
--             come in, if there is one: call `admit`}
--@include prelude format same_format

-- One sweep is enough for all workers. Where many ask, each comes less often: so many are enough to have one in time,
-- and when most of them die at once another comes soon.
local ASKERS, SELDOM = 4, 20
local every = tonumber(ARGV[5] or '') or 0
local total = call('ZCARD', SESSIONS)
local again = math.floor(every * math.max(1, math.min(total / ASKERS, SELDOM)))
local swept = every > 0 and tonumber(call('HGET', META, 'swept') or '')
local set_back = swept and swept > steady -- the server's clock
if swept and not set_back and steady < swept + every then
  local tick = call('ZRANGE', PREFIX .. 'ticks', 0, 0, 'WITHSCORES')[2]
  return { 0, 0, 0, 0, tick and math.max(0, tonumber(tick) - now) or -1, 0, again }
end
--@include job settings stats plan more schedules sorted lanes outcome ending culprits relations session wake patterns queues commit closing purge

local SESSIONS_AT_ONCE, PURGED_AT_ONCE = 1000, 500
local DROPPED_AT_ONCE, FORGOTTEN_AT_ONCE = 500, 500
local TYPICAL_BYTES = 600
local SILENT = setting('max-worker-age') -- a session without leases that was silent for so long is not coming back
local closed, returned, more = {}, 0, 0

-- Sessions that may have expired; as long as the index does not have them all, some of all.
check_type(EXPIRIES, 'zset')
local candidates
if set_back or call('ZCARD', EXPIRIES) < total then
  local first = total > SESSIONS_AT_ONCE and now % total or 0
  candidates = call('ZRANGE', SESSIONS, first, first + SESSIONS_AT_ONCE - 1)
else
  candidates = call('ZRANGEBYSCORE', EXPIRIES, '-inf', string.format('%.0f', steady), 'LIMIT', 0, SESSIONS_AT_ONCE)
end
local looks = {}
for _, id in ipairs(candidates) do
  local session = read_session(id)
  if returned >= LEASES_AT_ONCE then
    more = 1
    break
  end
  if not session or session.closed and not session.closing then
    closed[#closed + 1] = { id = id, key = session_key(id), held = PREFIX .. 'held:' .. id, hungry = '', lost = true }
  else
    local ends, has_leases = session.seen + session.timeout, call('SCARD', session.held) > 0
    local forgotten_at = session.seen + math.max(session.timeout, SILENT)
    if session.closing or has_leases and steady >= ends or steady >= forgotten_at then
      returned = returned + #give_back(session, session.closing or 'all', LEASES_AT_ONCE - returned)
      more = session.left and 1 or more
      closed[#closed + 1] = session
    else
      -- What it takes from now on it has for its time-out at least.
      looks[#looks + 1] = string.format('%.0f', has_leases and ends or math.min(steady + session.timeout, forgotten_at))
      looks[#looks + 1] = id
    end
  end
end

-- What ended jobs may take of the server's memory: as set, or a quarter of what the server has, or 1 GB. (A user may not be
-- allowed to ask for INFO.)
local function bound_of_memory()
  local given = setting('history-memory')
  local info = not given and redis.pcall('INFO', 'memory')
  local most = type(info) == 'string' and tonumber(info:match('\nmaxmemory:(%d+)')) or 0
  return given or most > 0 and math.floor(most / 4) or 1000000000
end

local purged, purged_early = 0, 0

-- Keeps the books on what ended jobs take. A namespace of before there were any, or whose books are wrong, gets a guess.
local function keep_books()
  local known = call('HMGET', META, 'ended_bytes', 'history_memory', 'purged_early_at')
  local number, bound, bytes = 0, string.format('%.0f', bound_of_memory()), tonumber(known[1] or '') or 0
  for _, key in pairs(ENDED) do
    number = number + call('ZCARD', key)
  end
  if bytes <= 0 and number > 0 then
    history_memory.add(number * TYPICAL_BYTES)
  elseif bytes > 0 and number == 0 then
    history_memory.add(-bytes)
  end
  plan.fields[META] = plan.fields[META] or {}
  if known[2] ~= bound then
    plan.fields[META].history_memory = bound
  end
  if known[3] and now - (tonumber(known[3]) or 0) > setting('failed-history') then
    plan.fields[META].purged_early, plan.fields[META].purged_early_at = false, false
  end
  return bytes + (counts.ended_bytes or 0) - tonumber(bound)
end

-- Done jobs make room first, failed ones last. A step of one state is bounded: the next state may have to wait for another
-- sweep.
local function make_room(over)
  for _, state in ipairs({ DONE, CANCELLED, FAILED }) do
    local gone, looked_at, freed = purge(state, call('ZCARD', ENDED[state]), PURGED_AT_ONCE, over)
    purged, over = purged + gone, over - freed
    if state == FAILED and gone > 0 then
      purged_early = gone
      local before = tonumber(call('HGET', META, 'purged_early') or '') or 0
      plan.fields[META].purged_early = string.format('%.0f', before + gone)
      plan.fields[META].purged_early_at = string.format('%.0f', now)
    end
    if over <= 0 then
      return
    elseif looked_at == PURGED_AT_ONCE then
      more = gone > 0 and 1 or more
      return
    end
  end
end

for state, key in pairs(ENDED) do
  local keep = state == DONE and (tonumber(ARGV[2]) or setting('jobs-history'))
    or tonumber(ARGV[3]) or setting('failed-history')
  local too_old = call('ZCOUNT', key, '-inf', '(' .. string.format('%.0f', now - keep))
  local surplus = state == DONE and call('ZCARD', key) - (tonumber(ARGV[4]) or setting('jobs-history-count')) or 0
  local gone, looked_at, noted = 0, 0, false
  if surplus > too_old then
    gone, looked_at, noted = purge_done(surplus, too_old, PURGED_AT_ONCE, 1)
  elseif too_old > 0 then
    gone, looked_at = purge(state, too_old, PURGED_AT_ONCE)
  end
  purged = purged + gone
  more = (gone > 0 or noted) and looked_at == PURGED_AT_ONCE and 1 or more
end

local over = keep_books()
if over > 0 and purged > 0 then
  more = 1 -- what is too old goes first
elseif over > 0 then
  make_room(over)
end
if not next(plan.fields[META]) then
  plan.fields[META] = nil
end

local worked = work_off()
queues.tell_of_room()
local faded = call('ZRANGEBYSCORE', PREFIX .. 'fading', '-inf', now, 'LIMIT', 0, FORGOTTEN_AT_ONCE)
for _, name in ipairs(faded) do
  lanes.forget(lanes.at(name))
end
if worked and relations.unfinished or #faded == FORGOTTEN_AT_ONCE then
  more = 1
end

-- Results may be dropped before their jobs: what ended since the last time, up to so long ago.
local dropped_until
local keep_results = setting('results-history')
if keep_results then
  local since = tonumber(call('HGET', META, 'results') or 0) or 0
  local before = string.format('%.0f', now - keep_results)
  local ended = call('ZRANGEBYSCORE', ENDED[DONE], '(' .. string.format('%.0f', since), '(' .. before, 'WITHSCORES',
    'LIMIT', 0, DROPPED_AT_ONCE)
  if #ended == 2 * DROPPED_AT_ONCE then
    -- Those that ended at the same moment go together.
    local last = ended[#ended]
    local ties = call('ZRANGEBYSCORE', ENDED[DONE], last, last, 'LIMIT', 0, 10000)
    while ended[#ended] == last do
      ended[#ended], ended[#ended - 1] = nil, nil
    end
    for _, id in ipairs(ties) do
      ended[#ended + 1] = id
      ended[#ended + 1] = last
    end
    more = 1
  end
  for i = 1, #ended, 2 do
    local job = find_job(ended[i])
    if job and job.state == DONE and band(job.flags, HAS_RESULT) ~= 0
      and not (band(job.flags, MORE) ~= 0 and relations.is_needed(job)) then
      local story = story_of(job)
      keep_result(job, story, nil)
      story.large = with(story.large, RESULT_DROPPED)
      tell(job, story)
      change(job)
    end
  end
  dropped_until = ended[#ended]
end

-- Statistics: some days that are past keeping go, and histograms of another: of so many queues, and then of those behind them.
local old, flat, flat_day, flattened = {}, {}, nil, nil
if check_type(PREFIX .. 'stats', 'zset') then
  old = call('ZRANGEBYSCORE', PREFIX .. 'stats', '-inf', '(' .. first_day('stats-history'), 'LIMIT', 0,
    FORGOTTEN_AT_ONCE)
  local since = tonumber(call('HGET', META, 'histograms') or 0) or 0
  local next_day = call('ZRANGEBYSCORE', PREFIX .. 'stats', '(' .. string.format('%.0f', since),
    '(' .. first_day('histogram-history'), 'WITHSCORES', 'LIMIT', 0, 1)
  if next_day[2] then
    flat_day = next_day[2]
    flattened = tonumber(call('HGET', META, 'flattened') or 0) or 0
    local members = call('ZRANGEBYSCORE', PREFIX .. 'stats', flat_day, flat_day, 'LIMIT', flattened, FORGOTTEN_AT_ONCE)
    flattened = #members == FORGOTTEN_AT_ONCE and flattened + #members or nil
    for _, member in ipairs(members) do
      local buckets = {}
      for _, field in ipairs(call('HKEYS', PREFIX .. 'stat:' .. member)) do
        if field:find('^[wr]%d') then
          buckets[#buckets + 1] = field
        end
      end
      flat[PREFIX .. 'stat:' .. member] = buckets
    end
  end
end

-- Blocks of arrivals that have few of their jobs left: what stays of some of them.
local BLOCKS_AT_ONCE = 10
local sparse = {}
if check_type(PREFIX .. 'sparse', 'set') then
  for _, name in ipairs(call('SRANDMEMBER', PREFIX .. 'sparse', BLOCKS_AT_ONCE)) do
    local key, first, left = PREFIX .. 'block:' .. name, (tonumber(name) or 0) * BLOCK, {}
    local ids = check_type(key, 'list') and call('LRANGE', key, 0, -1) or {}
    load_many(ids)
    for _, id in ipairs(ids) do
      local record = plan.jobs[id] ~= false and raw[id]
      local arrival = record and #record >= HEAD_SIZE and unpack_from('>I6', record, 26)
      if record and (not arrival or arrival >= first and arrival < first + BLOCK) then
        left[#left + 1] = id
      end
    end
    sparse[#sparse + 1] = { name, key, left }
  end
  more = #sparse == BLOCKS_AT_ONCE and 1 or more
end

local forgotten = check_type(WATCHED, 'zset') and call('ZCOUNT', WATCHED, '-inf', now) or 0
if flattened or #old == FORGOTTEN_AT_ONCE or forgotten > FORGOTTEN_AT_ONCE then
  more = 1
end

local tick = next_tick()
tick = tick and math.max(0, tick - now) or -1
local buried = 0
local arriving = call('ZRANGE', PREFIX .. 'arriving', 0, 0)[1]
if closed[1] or purged > 0 or next(counts) or next(plan.ended_heads) or next(plan.fields) or rawget(relations, 'forgot') or worked or faded[1] or dropped_until or old[1] or flat_day or forgotten > 0 or sparse[1] then
  commit(even_when_full)
  for _, session in ipairs(closed) do
    if session.lost then
      call('ZREM', SESSIONS, session.id)
      call('ZREM', EXPIRIES, session.id)
    elseif session.left then
      fence(session)
    else
      bury(session, SILENT)
      buried = buried + 1
    end
  end
  if dropped_until then
    call('HSET', META, 'results', dropped_until)
  end
  for _, member in ipairs(old) do
    call('UNLINK', PREFIX .. 'stat:' .. member)
    call('ZREM', PREFIX .. 'stats', member)
  end
  if flat_day then
    for key, buckets in pairs(flat) do
      bulk('HDEL', key, buckets)
    end
    if flattened then
      call('HSET', META, 'flattened', string.format('%.0f', flattened))
    else
      call('HSET', META, 'histograms', flat_day)
      call('HDEL', META, 'flattened')
    end
  end
  for _, block in ipairs(sparse) do
    call('UNLINK', block[2])
    bulk('RPUSH', block[2], block[3])
    call('SREM', PREFIX .. 'sparse', block[1])
  end
  if forgotten > 0 then
    call('ZREMRANGEBYRANK', WATCHED, 0, math.min(forgotten, FORGOTTEN_AT_ONCE) - 1)
  end
end
if looks[1] or every > 0 then
  even_when_full()
  if set_back then
    call('DEL', EXPIRIES)
  end
  bulk('ZADD', EXPIRIES, looks)
end
if every > 0 and more == 0 and not arriving then
  call('HSET', META, 'swept', string.format('%.0f', steady))
elseif every > 0 then
  call('HDEL', META, 'swept') -- others may help
end
return { buried, returned, purged, more, tick, purged_early, again, arriving }
