-- Where sessions register as hungry for work. Patterns are names of queues that stand for others (see patterns.lua). Apart from what
-- wakes them: one that finds nothing needs only this, and does so all the time.
--@include prelude

local PATTERNS = PREFIX .. 'patterns'
local LIST_LASTS = 86400000
local patterns = on_demand()

local function is_pattern(name)
  return name:find('[*?%[]') ~= nil
end

-- Where a list is kept, if this is one.
function patterns.list_key(name)
  return #name == 42 and name:find('^%[=%x+$') and PREFIX .. 'names:' .. name:sub(3) or nil
end

-- The same for one whose session asks for it: it must be there.
function patterns.list_asked_for(name)
  local key = patterns.list_key(name)
  if key and not check_type(key, 'zset') then
    fail('NAMES', name)
  end
  return key
end

local function check_hungry(names)
  for _, name in ipairs(names) do
    check_type(PREFIX .. 'hungry:' .. name, 'zset')
    if is_pattern(name) then
      check_type(PATTERNS, 'zset')
    end
  end
end

-- Registers a session for hints that there is work. Patterns that no session has asked for in a while are forgotten.
local function be_hungry(session, names)
  for _, name in ipairs(names) do
    call('ZADD', PREFIX .. 'hungry:' .. name, now, session)
    call('PEXPIRE', PREFIX .. 'hungry:' .. name, 60000)
    if is_pattern(name) then
      call('ZREMRANGEBYSCORE', PATTERNS, '-inf', now - 60000)
      call('ZADD', PATTERNS, now, name)
      call('PEXPIRE', PATTERNS, 60000)
      local list = patterns.list_key(name)
      if list then
        call('PEXPIRE', list, LIST_LASTS)
      end
    end
  end
end

-- Keeps the registration of a session that still waits. One that got a hint has left the set, and does not come back by this.
local function stay_hungry(names)
  for _, name in ipairs(names) do
    call('PEXPIRE', PREFIX .. 'hungry:' .. name, 60000)
    if is_pattern(name) then
      call('ZADD', PATTERNS, 'XX', now, name)
      call('PEXPIRE', PATTERNS, 60000)
    end
  end
end
