-- The history that a store keeps: what ended jobs take of the server's memory, and how they go.
--@include admission

-- What ended jobs take of the server's memory: added up as they end, taken off as they go.
local history_memory = {}

function history_memory.add(bytes)
  counts.ended_bytes = (counts.ended_bytes or 0) + bytes
end

-- About how many bytes one takes: its record, its large values (as they are, or if `planned` as they
-- will be), the history of runs (of the last one only where that was written down), and its places in hashes and sorted sets. All of that stays as it is while
-- the job has ended, so what was added up for it is what is taken off again when it goes.
function history_memory.of(id, record, planned)
  if #record < HEAD_SIZE then
    return #record + PLACES
  end
  local state, flags, _, attempts, crashes = unpack_from('>BHIIH', record)
  local bytes = #record + PLACES + (state == FAILED and FAILED_PLACES or 0)
    + RUN_LINES * math.min(math.max(attempts + crashes - (band(flags, HISTORY) ~= 0 and 0 or 1), 0), RUNS_KEPT)
  local behind = HEAD_SIZE + (band(flags, RUN) ~= 0 and RUN_SIZE or 0) + unpack_from('>I', record, LENGTH_AT) + 1
  local large = band(flags, STORY) ~= 0 and record:byte(behind) or 0
  for kind, is_large in pairs({
    ['b:'] = band(flags, LARGE_BODY), ['d:'] = band(large, 1), ['r:'] = band(large, 2), ['e:'] = band(large, 4) }) do
    if is_large ~= 0 then
      local value = planned and plan.large[kind .. id]
      bytes = bytes + (value and #value or check_type(LARGE, 'hash') and call('HSTRLEN', LARGE, kind .. id) or 0)
    end
  end
  return bytes
end

-- Ended jobs that retention has given up, oldest first. Most leave nothing but a record and an entry in an index: those are
-- removed without being parsed. Those that others need stay; how many of them are at the head, as far as that is known, is kept
-- in META: the next step goes on behind them, and begins anew when all have been looked at.
local purge, purge_done

do
  -- By the first bytes of records, which many have in common: of a done job that leaves nothing but its record, what `history_memory.of`
  -- says beyond its length; false where there is more to it.
  local heads = setmetatable({}, { __index = function(heads, head)
    local state, flags, _, attempts, crashes = unpack_from('>BHIIH', head)
    heads[head] = state == DONE and band(flags, HISTORY + HAS_KEY + LARGE_BODY + MORE + RUN + STORY) == RUN + STORY
      and PLACES + RUN_LINES * math.min(math.max(attempts + crashes - 1, 0), RUNS_KEPT)
    return heads[head]
  end })

  -- The queue of such a record, and how many bytes it takes; nil where there is more to it.
  local function queue_if_traceless(record, head)
    local bytes = #record >= HEAD_SIZE + RUN_SIZE + 4 and heads[head]
    local elsewhere = bytes and record:byte(HEAD_SIZE + RUN_SIZE + unpack_from('>I', record, LENGTH_AT) + 1)
    if not elsewhere or elsewhere % 8 ~= 0 then
      return nil
    end
    local high, low = record:byte(64, 65)
    return record:sub(66, 65 + high * 256 + low), #record + bytes
  end

  -- Lets go of ended jobs of a state, in the places from `first` to before `last`, so many at most; not of those that others
  -- need nor, if `but_results`, of those that returned something; and of no more, if `enough` is given, than take so many
  -- bytes. Answers how many are gone, how many stay, how many were looked at, the last one that stays, and how many bytes went.
  local function let_go(state, first, last, most, but_results, enough)
    local ids = call('ZRANGE', ENDED[state], first, math.min(last, first + most) - 1)
    load_many(ids)
    local numbers, purged, kept, stays, removed = {}, 0, 0, nil, plan.removed
    local looked_at, freed, others, holes = #ids, 0, 0, {}
    for i = 1, #ids do
      if enough and freed + others >= enough then
        looked_at = i - 1
        break
      end
      local id = ids[i]
      local record = raw[id]
      local head = record and #record >= HEAD_SIZE and record:sub(1, 13)
      local spared = but_results and head and band(head:byte(2), HAS_RESULT / 256) ~= 0
      local queue, bytes
      if head and not spared and state == DONE and plan.jobs[id] == nil then
        queue, bytes = queue_if_traceless(record, head)
      end
      if queue then
        freed = freed + bytes
        numbers[queue] = (numbers[queue] or 0) + 1
        removed[#removed + 1] = id
        local created, block, finished = unpack_from('>I6I5xxxxxxxxxxxxxxxxxxxxxxxxxxxI6', record, CREATED_AT)
        holes[block] = (holes[block] or 0) + 1
        stats.gone(queue, created, finished)
        raw[id] = false
        purged = purged + 1
      else
        local job = not spared and find_job(id)
        if spared or job and job.state == state and band(job.flags, MORE) ~= 0 and relations.is_needed(job) then
          kept, stays, ids[i] = kept + 1, id, false
        elseif job and job.state == state then
          others = others + (enough and history_memory.of(id, record) or 0) -- `commit` takes them off
          remove(job)
          purged = purged + 1
        end
      end
    end
    for queue, many in pairs(numbers) do
      count(queue, state, -many)
    end
    for block, many in pairs(holes) do
      leave_block(block, many)
    end
    if first == 0 and kept == 0 then
      plan.ended_heads[state] = looked_at
    else
      for i = 1, looked_at do
        if ids[i] then
          append(plan.sorted_out, ENDED[state], ids[i])
        end
      end
    end
    if freed > 0 then
      history_memory.add(-freed)
    end
    return purged, kept, looked_at, stays, freed + others
  end

  -- Of the `given_up` oldest, so many at most, or so many that `enough` bytes are gone. Answers how many are gone, how many
  -- were looked at, and how many bytes are gone.
  purge = function(state, given_up, most, enough)
    local field = 'kept' .. state
    local before = tonumber(call('HGET', META, field) or 0) or 0
    local first = before < given_up and before or 0
    local purged, kept, looked_at, _, freed = let_go(state, first, given_up, most, false, enough)
    local behind = first + looked_at < given_up and first + kept or 0
    if behind ~= before then
      set_field(META, field, behind > 0 and string.format('%.0f', behind))
    end
    return purged, looked_at, freed
  end

  -- Done jobs beyond the number to keep: all that ended ten minutes ago, and of the others those that returned nothing. `too_old`
  -- of them have to go in any case. When there are at least `step` to look at, so many at most are; the last one of these that
  -- stays is noted, and the next step goes on behind it. Answers as `purge`, and whether that has been noted.
  purge_done = function(surplus, too_old, most, step)
    local key = ENDED[DONE]
    local old = surplus > too_old and call('ZCOUNT', key, '-inf', '(' .. string.format('%.0f', now - RESULTS_KEPT)) or 0
    local given_up = math.max(too_old, math.min(surplus, old))
    local purged, looked_at, noted = 0, 0, false
    if given_up > 0 then
      purged, looked_at = purge(DONE, given_up, most)
    end
    local last = surplus > given_up and call('HGET', META, 'surplus')
    local first = math.max(given_up, last and (call('ZRANK', key, last) or -1) + 1 or 0)
    if surplus - first >= step then
      local gone, _, looked_behind, stays = let_go(DONE, first, surplus, most, true)
      noted = stays ~= nil and looked_behind == most
      if noted then
        set_field(META, 'surplus', stays)
      end
      purged, looked_at = purged + gone, math.max(looked_at, looked_behind)
    end
    return purged, looked_at, noted
  end
end
