-- Settling many outcomes at once: the first half of an exchange.
local OK, ALREADY, STALE = 0, 1, 2

local settle_all

do
  -- The outcomes: lists of what is needed to settle a job that is done, and tables of the others.
  local function read_outcomes()
    local sent, at, n = ARGV[4], 1, 0
    local ids, arrivals, tokens, charges, begans, endeds, results, others = {}, {}, {}, {}, {}, {}, {}, {}
    local began_before, ended_before -- many have them in common
    while at <= #sent do
      n = n + 1
      local kind, charge, when, began, ended, given
      ids[n], arrivals[n], tokens[n], kind, charge, when, began, ended, given, at = unpack_from('>Hc0ddBBdddH', sent, at)
      charges[n], begans[n], endeds[n] = charge, began, ended
      if began ~= began_before or ended ~= ended_before then
        if not (began >= -LATEST / 2 and began <= LATEST / 2 and ended >= -LATEST / 2 and ended <= LATEST / 2) then
          checks.refuse('Job ' .. ids[n] .. ' cannot have begun and ended at these times.')
        end
        began_before, ended_before = began, ended
      end
      if kind == K_DONE and charge <= C_ATTEMPT and given == 6 then
        others[n] = false
      elseif kind == K_DONE and charge <= C_ATTEMPT and given == 518 then
        results[n], at = unpack_from('>Ic0', sent, at)
        others[n] = #results[n] > INLINE and {
          kind = kind, charge = charge, delay = when, began = began, ended = ended, result = results[n] }
      else
        local other = { kind = kind, charge = charge, delay = when }
        others[n] = other
        checks.number(kind, K_DONE, K_WAITING, 'What became of job ', ids[n])
        checks.number(charge, 0, C_DEFERRAL, 'The charge of job ', ids[n])
        if band(given, 1) ~= 0 then
          other.at = when
          checks.number(when, 0, LATEST, 'The new time of job ', ids[n])
        else
          checks.duration(when, 'The delay of job ', ids[n])
        end
        if band(given, 2) ~= 0 then other.began = began end
        other.unstarted = kind == K_RELEASED and not other.began
        if band(given, 4) ~= 0 then other.ended = ended end
        if band(given, 8) ~= 0 then other.queue, at = unpack_from('>Hc0', sent, at) end
        if band(given, 16) ~= 0 then other.task, at = unpack_from('>Hc0', sent, at) end
        if band(given, 32) ~= 0 then other.group, at = unpack_from('>Hc0', sent, at) end
        if band(given, 64) ~= 0 then other.note, at = unpack_from('>Hc0', sent, at) end
        if band(given, 128) ~= 0 then other.body, at = unpack_from('>Ic0', sent, at) end
        if band(given, 256) ~= 0 then other.data, at = unpack_from('>Ic0', sent, at) end
        if band(given, 512) ~= 0 then other.result, at = unpack_from('>Ic0', sent, at) end
        if band(given, 1024) ~= 0 then other.error, at = unpack_from('>Ic0', sent, at) end
        if band(given, 2048) ~= 0 then
          other.after, at = unpack_from('>Ic0', sent, at)
          other.after = cmsgpack.unpack(other.after)
          checks.list_of_texts(other.after, 'what to wait for of job ', ids[n])
        end
        for _, name in ipairs({ 'queue', 'task', 'group', 'note' }) do
          if other[name] then
            checks.text(other[name], 'The new ' .. name .. ' of job ', ids[n])
          end
        end
      end
    end
    return ids, arrivals, tokens, charges, begans, endeds, results, others
  end

  -- Settles them all; answers with a byte per verdict. `kept`: how many done jobs to keep at most, if not as set.
  settle_all = function(session, kept)
    local function extend(list, more)
      local n = #list
      for i = 1, #more do
        list[n + i] = more[i]
      end
      return list
    end

    if ARGV[4] == '' then
      return ''
    end
    local ids, arrivals, tokens, charges, begans, endeds, results, others = read_outcomes()
    load_many(ids)
    local plain, before, after = happy_stories(session.name)
    local heads, known = {}, {}
    local verdicts, numbers, happy, scores, n, bytes = {}, {}, {}, {}, 0, 0
    local began, ended, started, finished, times, stamp
    for i = 1, #ids do
      local id, arrival, token, other = ids[i], arrivals[i], tokens[i], others[i]
      local record, queue, due
      if not other and plan.jobs[id] == nil then
        if begans[i] ~= began or endeds[i] ~= ended then
          began, ended = begans[i], endeds[i]
          started, finished = math.max(now - began, 1), math.max(now - ended, 1)
          times = pack('>I6I6', started, finished)
          stamp = string.format('%.0f', finished)
        end
        local result, which, story = results[i], charges[i], plain
        if result then
          which = which + 2
          story = before .. pack('>Ic0', #result, result) .. after
        end
        if not heads[which] then
          heads[which], known[which] = done_heads(charges[i], result and STORY + HAS_RESULT or STORY)
        end
        record, queue, due = done(raw[id], session, arrival, token, heads[which], known[which], times, story)
        if record then
          rewrite(id, record)
          n = n + 1
          bytes = bytes + #record
          happy[n], scores[n] = id, stamp
          fold(queue, due, started, finished)
          numbers[queue] = (numbers[queue] or 0) + 1
          verdicts[i] = OK
          if somebody_listens() then
            happened_to(id, record, HEAD_SIZE + RUN_SIZE + 1, 'done', '', session.name)
          end
        end
      end
      if not record then
        local job = find_job(id, nil, arrival)
        if holds(session, job, arrival, token) then
          end_run(session, job, other or {
            kind = K_DONE, charge = charges[i], began = begans[i], ended = endeds[i], result = results[i] })
          verdicts[i] = OK
        elseif job and job.state ~= RUNNING and job.token == token and job.arrival == arrival
          and job.session == session.number then
          verdicts[i] = ALREADY
        else
          verdicts[i] = STALE
        end
      end
    end
    for queue, number in pairs(numbers) do
      count(queue, RUNNING, -number)
      count(queue, DONE, number)
    end
    local finished_in = plan.ended_in[DONE]
    if n > 0 then
      history_memory.add(bytes + n * PLACES) -- as `history_memory.of` does: a first run, nothing large
      local m, held_out = #finished_in, plan.held_out[session.held] or {}
      for i = 1, n do
        finished_in[m + 2 * i - 1], finished_in[m + 2 * i] = scores[i], happy[i]
      end
      plan.held_out[session.held] = extend(held_out, happy)
      extend(plan.ended, happy)
    end
    if finished_in[1] then
      -- Those beyond the ones that are kept go when they are worth a step, and then faster than they come.
      local there, coming = call('ZCARD', ENDED[DONE]), #finished_in / 2
      types[ENDED[DONE]] = 'zset' -- or that would have failed
      kept = kept or setting('jobs-history-count')
      local surplus, portion = there + coming - kept, math.floor(math.min(math.max(kept / 50, 100), 1000))
      local most, over = math.max(2 * coming + 100, portion), history_memory.over()
      if over > 0 then
        purge(DONE, there, most, over)
      elseif surplus >= portion then
        purge_done(math.min(surplus, there), 0, most, portion)
      end
    end
    local bytes = {}
    for first = 1, #verdicts, 4000 do
      bytes[#bytes + 1] = string.char(unpack(verdicts, first, math.min(first + 3999, #verdicts)))
    end
    return table.concat(bytes)
  end
end
