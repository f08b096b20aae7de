-- What every class uses: checks of arguments, and the namespace in which the classes are found.
--
-- Keys (all under `ql:`; the spec calls the parts <q> queue, <jid> job, <w> worker, <t> tag, <g> failure group):
--   ql:config, ql:queues, ql:paused_queues, ql:workers, ql:completed, ql:tracked, ql:failures, ql:tags
--   ql:q:<q>-work, -locks, -scheduled, -depends, -recur      ql:j:<jid>, -history, -dependencies, -dependents
--   ql:r:<jid>     ql:w:<w>:jobs     ql:f:<g>     ql:t:<t>     ql:s:wait|run|stats:<day>:<q>
--
-- Three rules for everything below:
--   * Time is an argument. Only functions that need `now` take it, always in first place.
--   * Check first, then write: after its first write no function may fail. What was stored is therefore read with
--     care (`Values.stored`, `stored_number`, `option`), never asserted.
--   * A script is run from its first line for every call: a class is made only when somebody asks for it, all of them
--     by one function, because making functions is what costs. A module has the functions of its class; scripts.py puts
--     around them what makes the table (with room for them, as a table that grows costs, too) and returns it.
local call = redis.call

-- The classes: Qless.Job, Qless.Queue, ... Each is made when it is first asked for (see the end of the library).
--
-- The names without values only make room, so that the table need not grow while a call runs.
local Qless = {
  -- No command moves more than so many values to or from the stack at once (`unpack` fails at about 8000), and upkeep
  -- that could be without end stops after so many steps.
  CHUNK = 1000,
  put = nil, pop = nil, complete = nil, Put = nil, Pop = nil, Job = nil, Holder = nil,
}

-- An argument that must be there. An empty text names nothing.
local function required(command, name, value)
  if value == nil or value == '' then
    error(command .. '(): Arg "' .. name .. '" missing')
  end
  return value
end

-- A finite number (a zset takes no NaN, and JSON no infinity).
local function number(command, name, value)
  local found = tonumber(value)
  if not found or found - found ~= 0 then
    error(command .. '(): Arg "' .. name .. '" not a number: ' .. tostring(value))
  end
  return found
end

-- The same for something that is counted: a whole one, and no larger than commands take.
local function whole(command, name, value)
  return math.floor(math.max(-1e15, math.min(number(command, name, value), 1e15)))
end

-- A number that was stored; the default, if there is none or it is not finite.
local function stored_number(text, default)
  local found = tonumber(text)
  return found and found - found == 0 and found or default
end

-- The number that an option stands for; the default, if it is none. Options are any text: one that is larger than anything
-- that can be meant, or infinite, is as large as can be.
local function option(text, default)
  local found = tonumber(text)
  if not found or found ~= found then
    return default
  end
  return math.max(-1e9, math.min(found, 1e9))
end

-- A time as it stands in the field `time`, with 20 decimals. Of a time in our days 7 of them say all that there is to say,
-- and two whole numbers are printed sooner than one with a fraction.
local function time_text(time)
  if time > 1000000000 and time < 100000000000 then
    local whole = math.floor(time)
    local rest = math.floor((time - whole) * 10000000 + 0.5)
    if rest < 10000000 then
      return string.format('%d.%07d0000000000000', whole, rest)
    end
  end
  return string.format('%.20f', time)
end

-- JSON text, decoded: it must be such, and `false` counts as missing, as it always has. (What is wrong with the text is
-- said by the decoder itself: catching that would cost every call.)
local function json(command, name, text)
  local value = cjson.decode(required(command, name, text))
  if value == false then
    error(command .. '(): Arg "' .. name .. '" missing')
  end
  return value
end

-- Append an entry to a job's history, the list `ql:j:<jid>-history`. It is JSON text, `[when,what]` or
-- `[when,what,{extra}]` with `when` in whole seconds. `field` is the job's field `history` (only very old records have
-- one), `limit` the option `max-job-history` where the caller has read it already.
--
-- The first entry is always kept, and the newest: a limit of 1 counts as 2, and none of 0 or less as no limit.
local function remember(key, entry, field, limit)
  if field then
    Qless.OldHistory.convert(key, field)
  end
  local length = call('RPUSH', key .. '-history', entry)
  if length > 2 then
    if limit == nil then
      limit = call('HGET', 'ql:config', 'max-job-history')
    end
    limit = option(limit, 100)
    if limit > 0 and length > math.max(limit, 2) then
      local list = key .. '-history'
      local first = call('LPOP', list)
      call('LTRIM', list, -(math.max(math.floor(limit), 2) - 1), -1)
      call('LPUSH', list, first)
    end
  end
end
