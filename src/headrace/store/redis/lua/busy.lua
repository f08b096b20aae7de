-- The two transitions that make up nearly all of a busy server's work, on the bytes of records alone: a job that is handed
-- out for the first time, and one that is done after it. They do what `hand_out` and `end_run` do, in a quarter of the time;
-- whatever is special about a job makes them answer nil, and leaves it to those.
--
-- The jobs of a batch have the first bytes of their records in common, mostly: what becomes of these is worked out once. And
-- what does not change is copied as bytes: a server spends more on making a string than on anything else here.
local SPECIAL = CANCELLING + STORY + LARGE_BODY + MORE

-- Whether an entry of a row still stands for a job that is ready.
local function stands(member, record)
  if not record or #record < HEAD_SIZE then
    return false
  end
  local due, arrival = unpack_from('>I6I6', member)
  local its_due, its_arrival = unpack_from('>I6xxxxxxI6', record, 14)
  return its_arrival == arrival and its_due == due and record:byte(1) == READY
end

-- From the first bytes of ready records (state, flags, token) to those of running ones; false where there is more to it.
local function taken_heads(spare)
  return setmetatable({}, { __index = function(heads, head)
    local state, flags, token = unpack_from('>BHI', head)
    heads[head] = state == READY and band(flags, SPECIAL + RUN) == 0
      and pack('>BHI', RUNNING, bor(flags, spare and RUN + SPARE or RUN), token + 1)
    return heads[head]
  end })
end

-- A ready record as a running one. `run` is the bytes of the run, the same for all jobs of an exchange.
local function taken(record, run, heads)
  if not record or #record < HEAD_SIZE then
    return nil
  end
  local head, middle = unpack_from('c7c34', record)
  head = heads[head]
  return head and head .. middle .. run .. record:sub(HEAD_SIZE + 1)
end

-- The stories of jobs that one worker has done: one without and the two ends of one with a result.
local function happy_stories(worker)
  local plain = pack(STORY_FORMAT, 0, #worker, worker, 0, '', 0, '', 0, '', 0, '', 0, 0, 0)
  return plain, plain:sub(1, 9 + #worker), plain:sub(14 + #worker)
end

-- From the first bytes of running records (state, flags, token, attempts) to those of done ones, and their tokens; false where
-- there is more to it.
local function done_heads(attempts_spent, more)
  local tokens = {}
  return setmetatable({}, { __index = function(heads, head)
    local state, flags, token, attempts = unpack_from('>BHII', head)
    local plain = state == RUNNING and band(flags, SPECIAL) == 0
    heads[head] = plain and pack('>BHII', DONE, bor(without(flags, SPARE), more), token, attempts + attempts_spent)
    tokens[head] = plain and token
    return heads[head]
  end }), tokens
end

-- A running record as a done one: record, queue, and when it was due. `times` is the bytes of its start and its end.
local function done(record, session, arrival, token, heads, tokens, times, story)
  if not record or #record < HEAD_SIZE + RUN_SIZE + 4 then
    return nil
  end
  local head, middle = unpack_from('c11c40', record)
  local due, arrived, length, holder = unpack_from('>I6xxxxxxI6xxxxxxII', record, 14)
  local high, low = record:byte(64, 65)
  local changed, queue_end = heads[head], 65 + high * 256 + low
  if not changed or tokens[head] ~= token or arrived ~= arrival or holder ~= session.number
    or #record ~= HEAD_SIZE + RUN_SIZE + length or queue_end + 2 > #record then
    return nil
  end
  return changed .. middle .. times .. record:sub(64) .. story, record:sub(66, queue_end), due
end
