-- Sweeping: bounded pieces of upkeep. Each of these looks for what there is to do and puts it into the plan, or into `swept`;
-- `sweep.write` writes what the plan does not.
--@include commit queues closing arrivals

local SESSIONS_AT_ONCE, PURGED_AT_ONCE = 1000, 500
local DROPPED_AT_ONCE, FORGOTTEN_AT_ONCE, BLOCKS_AT_ONCE = 500, 500, 10
local TYPICAL_BYTES = 600
local SILENT = setting('max-worker-age') -- a session without leases that was silent for so long is not coming back

-- What has been found. `more`: 1 if there is more to do than one sweep does.
local swept = {
  closed = {}, looks = {}, returned = 0, purged = 0, purged_early = 0, more = 0, faded = {}, old_days = {}, flat = {}, sparse = {},
  forgotten = 0, quiet = 0,
}
local sweep = {}

-- Sessions that may have expired; as long as the index does not have them all, some of all.
function sweep.sessions(total, set_back)
  check_type(EXPIRIES, 'zset')
  local candidates
  if set_back or call('ZCARD', EXPIRIES) < total then
    local first = total > SESSIONS_AT_ONCE and now % total or 0
    candidates = call('ZRANGE', SESSIONS, first, first + SESSIONS_AT_ONCE - 1)
  else
    candidates = call('ZRANGEBYSCORE', EXPIRIES, '-inf', string.format('%.0f', steady), 'LIMIT', 0, SESSIONS_AT_ONCE)
  end
  local closed, looks = swept.closed, swept.looks
  for _, id in ipairs(candidates) do
    local session = read_session(id)
    if swept.returned >= LEASES_AT_ONCE then
      swept.more = 1
      break
    end
    if not session or session.closed and not session.closing then
      closed[#closed + 1] = { id = id, lost = true }
    else
      local ends, has_leases = session.seen + session.timeout, call('SCARD', session.held) > 0
      local forgotten_at = session.seen + math.max(session.timeout, SILENT)
      if session.closing or has_leases and steady >= ends or steady >= forgotten_at then
        swept.returned = swept.returned + #give_back(session, session.closing or 'all', LEASES_AT_ONCE - swept.returned)
        swept.more = session.left and 1 or swept.more
        closed[#closed + 1] = session
      else
        -- What it takes from now on it has for its time-out at least.
        looks[#looks + 1] = string.format('%.0f', has_leases and ends or math.min(steady + session.timeout, forgotten_at))
        looks[#looks + 1] = id
      end
    end
  end
end

-- Jobs that have not started in time.
function sweep.expired()
  local late = call('ZRANGEBYSCORE', PREFIX .. 'expiring', '-inf', '(' .. string.format('%.0f', now), 'LIMIT', 0, PASSED_IN_A_STEP)
  load_many(late)
  for _, id in ipairs(late) do
    local job = find_job(id)
    if job and job.state < DONE and job.state ~= RUNNING then
      leave_state(job)
      expiring.fail(job)
    else
      expiring.note({ id = id }, false) -- another program has left it there
    end
  end
  swept.more = #late == PASSED_IN_A_STEP and 1 or swept.more
end

-- Jobs whose task is no longer blocked.
function sweep.lifted()
  swept.lifted = barring.bring_back()
  swept.more = swept.lifted and 1 or swept.more
end

-- What ended jobs may take of the server's memory: as set, or a quarter of what the server has, or 1 GB. (A user may not be
-- allowed to ask for INFO.)
function sweep.bound_of_memory()
  local given = setting('history-memory')
  local info = not given and redis.pcall('INFO', 'memory')
  local most = type(info) == 'string' and tonumber(info:match('\nmaxmemory:(%d+)')) or 0
  return given or most > 0 and math.floor(most / 4) or 1000000000
end

-- Keeps the books on what ended jobs take. A namespace of before there were any, or whose books are wrong, gets a guess. By how much
-- they are over their bound.
function sweep.keep_books()
  local known = call('HMGET', META, 'ended_bytes', 'history_memory', 'purged_early_at')
  local number, bound, bytes = 0, string.format('%.0f', sweep.bound_of_memory()), tonumber(known[1] or '') or 0
  for _, key in pairs(ENDED) do
    number = number + call('ZCARD', key)
  end
  if bytes <= 0 and number > 0 then
    history_memory.add(number * TYPICAL_BYTES)
  elseif bytes > 0 and number == 0 then
    history_memory.add(-bytes)
  end
  if known[2] ~= bound then
    set_field(META, 'history_memory', bound)
  end
  if known[3] and now - (tonumber(known[3]) or 0) > setting('failed-history') then
    set_field(META, 'purged_early', false)
    set_field(META, 'purged_early_at', false)
  end
  return bytes + (counts.ended_bytes or 0) - tonumber(bound)
end

-- Done jobs make room first, failed ones last. A step of one state is bounded: the next state may have to wait for another
-- sweep.
function sweep.make_room(over)
  for _, state in ipairs({ DONE, CANCELLED, FAILED }) do
    local gone, looked_at, freed = purge(state, call('ZCARD', ENDED[state]), PURGED_AT_ONCE, over)
    swept.purged, over = swept.purged + gone, over - freed
    if state == FAILED and gone > 0 then
      swept.purged_early = gone
      local before = tonumber(call('HGET', META, 'purged_early') or '') or 0
      set_field(META, 'purged_early', string.format('%.0f', before + gone))
      set_field(META, 'purged_early_at', string.format('%.0f', now))
    end
    if over <= 0 then
      return
    elseif looked_at == PURGED_AT_ONCE then
      swept.more = gone > 0 and 1 or swept.more
      return
    end
  end
end

-- Ended jobs that retention has given up. `keep_done`, `keep_failed`, `keep_number`: in place of what the settings say.
function sweep.ended(keep_done, keep_failed, keep_number)
  for state, key in pairs(ENDED) do
    local keep = state == DONE and (keep_done or setting('jobs-history')) or keep_failed or setting('failed-history')
    local too_old = call('ZCOUNT', key, '-inf', '(' .. string.format('%.0f', now - keep))
    local surplus = state == DONE and call('ZCARD', key) - (keep_number or setting('jobs-history-count')) or 0
    local gone, looked_at, noted = 0, 0, false
    if surplus > too_old then
      gone, looked_at, noted = purge_done(surplus, too_old, PURGED_AT_ONCE, 1)
    elseif too_old > 0 then
      gone, looked_at = purge(state, too_old, PURGED_AT_ONCE)
    end
    swept.purged = swept.purged + gone
    swept.more = (gone > 0 or noted) and looked_at == PURGED_AT_ONCE and 1 or swept.more
  end
  local over = sweep.keep_books()
  if over > 0 and swept.purged > 0 then
    swept.more = 1 -- what is too old goes first
  elseif over > 0 then
    sweep.make_room(over)
  end
end

-- Dependents that still wait, room in queues with a limit, lanes that have nothing to remember.
function sweep.relations_and_lanes()
  swept.worked = work_off()
  queues.tell_of_room()
  swept.faded = call('ZRANGEBYSCORE', PREFIX .. 'fading', '-inf', now, 'LIMIT', 0, FORGOTTEN_AT_ONCE)
  for _, name in ipairs(swept.faded) do
    lanes.forget(lanes.at(name))
  end
  if swept.worked and relations.unfinished or #swept.faded == FORGOTTEN_AT_ONCE then
    swept.more = 1
  end
end

-- Results may be dropped before their jobs: what ended since the last time, up to so long ago.
function sweep.results()
  local keep_results = setting('results-history')
  if not keep_results then
    return
  end
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
    swept.more = 1
  end
  for i = 1, #ended, 2 do
    local job = find_job(ended[i])
    if job and job.state == DONE and band(job.flags, HAS_RESULT) ~= 0
      and not (band(job.flags, MORE) ~= 0 and relations.is_needed(job)) then
      local story = story_of(job)
      keep_value(job, story, 'result', nil)
      story.large = with(story.large, RESULT_DROPPED)
      tell(job, story)
      change(job)
    end
  end
  swept.dropped_until = ended[#ended]
end

-- Statistics: some days that are past keeping go, and histograms of another: of so many queues, and then of those behind them.
function sweep.statistics()
  if not check_type(PREFIX .. 'stats', 'zset') then
    return
  end
  swept.old_days = call('ZRANGEBYSCORE', PREFIX .. 'stats', '-inf', '(' .. first_day('stats-history'), 'LIMIT', 0,
    FORGOTTEN_AT_ONCE)
  local since = tonumber(call('HGET', META, 'histograms') or 0) or 0
  local next_day = call('ZRANGEBYSCORE', PREFIX .. 'stats', '(' .. string.format('%.0f', since),
    '(' .. first_day('histogram-history'), 'WITHSCORES', 'LIMIT', 0, 1)
  swept.flat_day = next_day[2]
  if swept.flat_day then
    local flattened = tonumber(call('HGET', META, 'flattened') or 0) or 0
    local members = call('ZRANGEBYSCORE', PREFIX .. 'stats', swept.flat_day, swept.flat_day, 'LIMIT', flattened, FORGOTTEN_AT_ONCE)
    swept.flattened = #members == FORGOTTEN_AT_ONCE and flattened + #members or nil
    for _, member in ipairs(members) do
      local buckets = {}
      for _, field in ipairs(call('HKEYS', PREFIX .. 'stat:' .. member)) do
        if field:find('^[wr]%d') then
          buckets[#buckets + 1] = field
        end
      end
      swept.flat[PREFIX .. 'stat:' .. member] = buckets
    end
  end
  if swept.flattened or #swept.old_days == FORGOTTEN_AT_ONCE then
    swept.more = 1
  end
end

-- Groups that have had no failure for long. `write` looks again, as a job may have failed meanwhile.
function sweep.groups()
  swept.quiet_before = '(' .. string.format('%.0f', now - setting('stats-history'))
  check_type(failing.key, 'hash')
  swept.quiet = check_type(failing.last, 'zset') and call('ZCOUNT', failing.last, '-inf', swept.quiet_before) or 0
  swept.more = swept.quiet > FORGOTTEN_AT_ONCE and 1 or swept.more
end

-- Blocks of arrivals that have few of their jobs left: what stays of some of them.
function sweep.blocks()
  if not check_type(PREFIX .. 'sparse', 'set') then
    return
  end
  for _, name in ipairs(call('SRANDMEMBER', PREFIX .. 'sparse', BLOCKS_AT_ONCE)) do
    local key, first, left = PREFIX .. 'block:' .. name, (tonumber(name) or 0) * BLOCK, {}
    local ids = check_type(key, 'list') and ids_in(key) or {}
    load_many(ids)
    for _, id in ipairs(ids) do
      local record = plan.jobs[id] ~= false and raw[id]
      local arrival = record and #record >= HEAD_SIZE and unpack_from('>I6', record, ARRIVAL_AT)
      if record and (not arrival or arrival >= first and arrival < first + BLOCK) then
        left[#left + 1] = id
      end
    end
    swept.sparse[#swept.sparse + 1] = { name, key, left[1] and { packed_ids(left, 1, #left) } or {} }
  end
  swept.more = #swept.sparse == BLOCKS_AT_ONCE and 1 or swept.more
end

-- Waiters that have been gone for long.
function sweep.waiters()
  swept.forgotten = check_type(WATCHED, 'zset') and call('ZCOUNT', WATCHED, '-inf', now) or 0
  swept.more = swept.forgotten > FORGOTTEN_AT_ONCE and 1 or swept.more
end

function sweep.has_found_any()
  return swept.closed[1] or swept.purged > 0 or next(counts) or next(plan.ended_heads) or next(plan.fields) or next(plan.index)
    or rawget(relations, 'forgot') or swept.worked or swept.faded[1] or swept.dropped_until or swept.old_days[1] or swept.flat_day
    or swept.forgotten > 0 or swept.sparse[1] or swept.quiet > 0 or swept.lifted
end

-- After `commit`. How many sessions have been closed.
function sweep.write()
  local buried = 0
  for _, session in ipairs(swept.closed) do
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
  if swept.dropped_until then
    call('HSET', META, 'results', swept.dropped_until)
  end
  for _, member in ipairs(swept.old_days) do
    call('UNLINK', PREFIX .. 'stat:' .. member)
    call('ZREM', PREFIX .. 'stats', member)
  end
  for key, buckets in pairs(swept.flat) do
    bulk('HDEL', key, buckets)
  end
  if swept.flattened then
    call('HSET', META, 'flattened', string.format('%.0f', swept.flattened))
  elseif swept.flat_day then
    call('HSET', META, 'histograms', swept.flat_day)
    call('HDEL', META, 'flattened')
  end
  for _, block in ipairs(swept.sparse) do
    call('UNLINK', block[2])
    bulk('RPUSH', block[2], block[3])
    call('SREM', PREFIX .. 'sparse', block[1])
  end
  if swept.quiet > 0 then
    local quiet = call('ZRANGEBYSCORE', failing.last, '-inf', swept.quiet_before, 'LIMIT', 0, FORGOTTEN_AT_ONCE)
    bulk('HDEL', failing.key, quiet)
    bulk('ZREM', failing.last, quiet)
  end
  if swept.forgotten > 0 then
    call('ZREMRANGEBYRANK', WATCHED, 0, math.min(swept.forgotten, FORGOTTEN_AT_ONCE) - 1)
  end
  return buried
end
