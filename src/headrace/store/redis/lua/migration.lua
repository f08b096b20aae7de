-- The steps from format 1 to format 2. While they go on, `format` in META says so: neither version touches the namespace then. META
-- also says how far they have come, in `migration`: the step, a space, and its position ('' at its beginning). That is written in the
-- same script as what the step did: a migration that was killed goes on where it was, and two at once do each piece once.
--
-- A step is a script. ARGV[2] is the name of the step after it ('': it is the last). It does a bounded piece from `position` on, and
-- ends with `go_on`. Answers  the step to call next ('': all is done)
--@include prelude

local MIGRATING = '1 on its way to 2'
local at_step, position
do
  local meta = call('HMGET', META, 'format', 'migration')
  if meta[1] == MIGRATING then
    at_step, position = (meta[2] or ''):match('^(%S+) (.*)$')
    if not at_step then
      fail('CORRUPT', META .. ' does not say how far its migration has come')
    end
  elseif meta[1] ~= '1' then
    check_format(meta[1])
  end
end

-- The first write, which a full server refuses. `to`: the position after this piece; nil: the step is over.
local function go_on(to)
  if to then
    call('HSET', META, 'migration', at_step .. ' ' .. to)
    return at_step
  elseif ARGV[2] ~= '' then
    call('HSET', META, 'migration', ARGV[2] .. ' ')
  else
    call('HSET', META, 'format', '2')
    call('HDEL', META, 'migration')
  end
  return ARGV[2]
end

-- A step of a migration that goes through a hash that is in no order: its position is a cursor of HSCAN. That means something to the
-- server only that gave it: on another one, or after a restart, the step begins again. What it does to an entry can be done twice.
--
-- Fields and values of the next piece, and the position behind it; nil: that was all.
local function next_piece(key, number)
  local about = redis.pcall('INFO', 'server')
  local this_run = type(about) == 'string' and about:match('run_id:(%x+)') or ''
  local cursor, run = position:match('^(%d+) (%x*)$')
  if not cursor or run ~= this_run then
    cursor = '0'
  end
  local found = call('HSCAN', key, cursor, 'COUNT', number)
  return found[2], found[1] ~= '0' and found[1] .. ' ' .. this_run or nil
end
