-- The two transitions that make up nearly all of a busy server's work, on the bytes of records alone: a job that is handed
-- out for the first time, and one that is done after it. They do what `hand_out` and `end_run` do, in a quarter of the time;
-- whatever is special about a job makes them answer nil, and leaves it to those.
local FIRST_RUN_HEAD = HEAD_FORMAT .. RUN_FORMAT:sub(2)
local SPECIAL = CANCELLING + STORY + LARGE_BODY + MORE

-- A ready record as a running one. `run` is the bytes of the run, the same for all jobs of an exchange.
local function taken(record, run, spare)
  if not record or #record < HEAD_SIZE then
    return nil
  end
  local state, flags, token = unpack_from('>BHI', record)
  if state ~= READY or band(flags, SPECIAL + RUN) ~= 0 then
    return nil
  end
  return pack('>BHI', RUNNING, flags + (spare and RUN + SPARE or RUN), token + 1)
    .. record:sub(8, HEAD_SIZE) .. run .. record:sub(HEAD_SIZE + 1)
end

-- The stories of jobs that one worker has done: one without and the two ends of one with a result.
local function happy_stories(worker)
  local plain = pack(STORY_FORMAT, 0, #worker, worker, 0, '', 0, '', 0, '', 0, '', 0, 0, 0)
  return plain, plain:sub(1, 9 + #worker), plain:sub(14 + #worker)
end

-- A running record as a done one: record, queue and time of its end.
local function done(record, session, arrival, token, charge, started, finished, story, result)
  if not record or #record < HEAD_SIZE + RUN_SIZE + 4 then
    return nil
  end
  local state, flags, current, attempts, crashes, due, created, arrived, priority, max_crashes, length, holder, request,
    taken_at = unpack_from(FIRST_RUN_HEAD, record)
  if state ~= RUNNING or current ~= token or arrived ~= arrival or holder ~= session.number
    or band(flags, SPECIAL) ~= 0 or #record ~= HEAD_SIZE + RUN_SIZE + length then
    return nil
  end
  local size = record:byte(64) * 256 + record:byte(65)
  return pack(
    FIRST_RUN_HEAD, DONE, without(flags, SPARE) + (result and STORY + HAS_RESULT or STORY), token,
    attempts + (charge == 1 and 1 or 0), crashes, due, created, arrival, priority, max_crashes, length, holder, request,
    started or taken_at, finished) .. record:sub(HEAD_SIZE + RUN_SIZE + 1) .. story, record:sub(66, 65 + size)
end
