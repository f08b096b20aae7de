-- Settling many outcomes at once: the first half of an exchange.
local OK, ALREADY, STALE = 0, 1, 2

-- The outcomes, as lists of what all have, and a table of what only some have.
local function read_outcomes()
  local sent, at, n = ARGV[4], 1, 0
  local ids, arrivals, tokens, kinds, charges, whens, begans, endeds, givens, results, rares =
    {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}
  while at <= #sent do
    n = n + 1
    local given
    ids[n], arrivals[n], tokens[n], kinds[n], charges[n], whens[n], begans[n], endeds[n], given, at =
      unpack_from('>Hc0ddBBdddH', sent, at)
    givens[n] = given
    if given >= 8 then
      local rare = given % 512 >= 8 or given >= 1024
      rare = rare and {} or nil
      rares[n] = rare
      if band(given, 8) ~= 0 then rare.queue, at = unpack_from('>Hc0', sent, at) end
      if band(given, 16) ~= 0 then rare.task, at = unpack_from('>Hc0', sent, at) end
      if band(given, 32) ~= 0 then rare.group, at = unpack_from('>Hc0', sent, at) end
      if band(given, 64) ~= 0 then rare.note, at = unpack_from('>Hc0', sent, at) end
      if band(given, 128) ~= 0 then rare.body, at = unpack_from('>Ic0', sent, at) end
      if band(given, 256) ~= 0 then rare.data, at = unpack_from('>Ic0', sent, at) end
      if band(given, 512) ~= 0 then results[n], at = unpack_from('>Ic0', sent, at) end
      if band(given, 1024) ~= 0 then rare.error, at = unpack_from('>Ic0', sent, at) end
    end
  end
  return ids, arrivals, tokens, kinds, charges, whens, begans, endeds, givens, results, rares
end

-- Settles them all; answers with a byte per verdict. `kept`: how many done jobs to keep at most.
local function settle_all(session, kept)
  local ids, arrivals, tokens, kinds, charges, whens, begans, endeds, givens, results, rares = read_outcomes()
  load_many(ids)
  local plain, before, after = happy_stories(session.name)
  local verdicts, numbers, finished_in, held_out, ended = {}, {}, plan.ended_in[DONE], {}, plan.ended
  plan.held_out[session.held] = held_out
  for i = 1, #ids do
    local id, arrival, token, given, result = ids[i], arrivals[i], tokens[i], givens[i], results[i]
    local record, queue
    if kinds[i] == K_DONE and not rares[i] and charges[i] ~= C_DEFERRAL and plan.jobs[id] == nil
      and not (result and #result > INLINE) then
      local finished = band(given, 4) ~= 0 and math.max(now - endeds[i], 1) or now
      local started = band(given, 2) ~= 0 and math.max(now - begans[i], 1) or nil
      local story = result and before .. pack('>Ic0', #result, result) .. after or plain
      record, queue = done(raw[id], session, arrival, token, charges[i], started, finished, story, result)
      if record then
        rewrite(id, record)
        finished_in[#finished_in + 1] = finished
        finished_in[#finished_in + 1] = id
        held_out[#held_out + 1] = id
        ended[#ended + 1] = id
        numbers[queue] = (numbers[queue] or 0) + 1
        verdicts[i] = OK
      end
    end
    if not record then
      local job = find_job(id)
      if holds(session, job, arrival, token) then
        local outcome = rares[i] or {}
        outcome.kind, outcome.charge, outcome.delay, outcome.result = kinds[i], charges[i], whens[i], result
        outcome.at = band(given, 1) ~= 0 and whens[i] or nil
        outcome.began = band(given, 2) ~= 0 and begans[i] or nil
        outcome.ended = band(given, 4) ~= 0 and endeds[i] or nil
        end_run(session, job, outcome)
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
  if not held_out[1] then
    plan.held_out[session.held] = nil
  end
  local surplus = finished_in[1] and call('ZCARD', ENDED[DONE]) + #finished_in / 2 - kept or 0
  if surplus >= 100 then
    purge(DONE, math.min(surplus, #finished_in + 100))
  end
  local bytes = {}
  for first = 1, #verdicts, 4000 do
    bytes[#bytes + 1] = string.char(unpack(verdicts, first, math.min(first + 3999, #verdicts)))
  end
  return table.concat(bytes)
end
