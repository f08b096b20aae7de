-- A step of a migration that goes through a hash that is in no order: its position is a cursor of HSCAN. That means something to the
-- server only that gave it: on another one, or after a restart, the step begins again. What it does to an entry can be done twice.
local function server_run()
  local about = redis.pcall('INFO', 'server')
  return type(about) == 'string' and about:match('run_id:(%x+)') or ''
end

-- Fields and values of the next piece, and the position behind it; nil: that was all.
local function next_piece(key, number)
  local cursor, run = position:match('^(%d+) (%x*)$')
  if not cursor or run ~= server_run() then
    cursor = '0'
  end
  local found = call('HSCAN', key, cursor, 'COUNT', number)
  return found[2], found[1] ~= '0' and found[1] .. ' ' .. server_run() or nil
end
