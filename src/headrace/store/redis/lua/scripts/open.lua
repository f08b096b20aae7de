-- open: begin a session. Opening an open one again changes nothing but its description.
--
-- ARGV[2..6] id, name, time-out in milliseconds, the session as JSON (see `check_info`), what it listens to and knows (msgpack list of
--            field, '1', ...)
-- Answers    now
-- Fails      GONE when it has been closed; REFUSED
--@include sessions checks

-- All that look at sessions read what this one says about itself.
local function check_info(id, name, info)
  checks.text(info, 'What the session says about itself')
  local good, said = pcall(cjson.decode, info)
  if not good or type(said) ~= 'table' or said.id ~= id or said.name ~= name then
    checks.refuse('What the session says about itself must be a JSON object with its `id` and its `name`.')
  end
  for _, field in ipairs({ 'queues', 'tasks' }) do
    if said[field] then
      checks.list_of_texts(said[field], 'the ' .. field .. ' of the session')
    end
  end
  for _, field in ipairs({ 'host', 'node', 'started', 'version' }) do
    checks.text(said[field] or '', 'The `' .. field .. '` of the session')
  end
  for _, field in ipairs({ 'pid', 'process' }) do
    checks.integer(said[field] or 0, 0, LATEST, 'The `' .. field .. '` of the session')
  end
  checks.integer(said.timeout or 0, 0, LATEST, 'The `timeout` of the session')
end

local function check_fields(fields)
  checks.list_of_texts(fields, 'what the session listens to and knows')
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    if field == 'patterns' then
      local good, globs = pcall(cjson.decode, value or '')
      checks.list_of_texts(good and globs, 'the patterns of the session')
    elseif value ~= '1' or not (field:find('^queue:') or field:find('^task:')) then
      checks.refuse("What the session listens to and knows must be 'queue:<name>', '1' and 'task:<name>', '1'.")
    end
  end
end

local id = ARGV[2]
local session = read_session(id)
if session then
  if session.closed then
    fail('GONE', 'Session ' .. id .. ' has been closed and cannot be opened again.')
  end
  even_when_full()
  call('HSET', session.key, 'info', ARGV[5])
  return string.format('%.0f', now)
end
local meta = call('HMGET', META, 'format', 'sessions')
check_format(meta[1])
local number = (tonumber(meta[2] or 0) or fail('CORRUPT', META .. ' has no number in field sessions')) + 1
checks.text(id, 'The id of the session')
checks.text(ARGV[3], 'The name of the session')
checks.integer(tonumber(ARGV[4]), 0, LATEST, 'The time-out of the session')
check_info(id, ARGV[3], ARGV[5])
local good, fields = pcall(cmsgpack.unpack, ARGV[6])
check_fields(good and fields)
check_type(SESSIONS, 'zset')
check_type(EXPIRIES, 'zset')
local stamp = string.format('%.0f', now)
even_when_full() -- a worker makes room
call('HSET', META, 'format', FORMAT, 'sessions', number)
call('ZADD', SESSIONS, number, id)
call('ZADD', EXPIRIES, string.format('%.0f', steady + tonumber(ARGV[4])), id)
call('HSET', session_key(id), 'number', number, 'name', ARGV[3], 'timeout', ARGV[4], 'info', ARGV[5],
  'opened', stamp, 'seen', string.format('%.0f', steady), 'seen_at', stamp, 'request', 0)
bulk('HSET', session_key(id), fields)
return stamp
