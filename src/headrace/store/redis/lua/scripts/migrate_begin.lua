-- migrate_begin: from here on nothing but a migration touches the namespace. Sessions that have expired are closed, so that their
-- workers, should they live, settle nothing any more; sweeps give their leases back after the migration.
--
-- ARGV[2]  the step after this one
-- Answers  the step to call next; '' if there is nothing to migrate
-- Fails    INUSE while workers are there
--@include migration sessions

local MOST = 10000
if at_step then
  return at_step -- it has begun before
elseif call('HGET', META, 'format') ~= '1' then
  return ''
end
check_type(SESSIONS, 'zset')
local open, live, dead = call('ZRANGE', SESSIONS, 0, MOST), {}, {}
for _, id in ipairs(open) do
  local session = read_session(id)
  if session and not session.closed then
    check_type(session.key, 'hash')
    if steady < session.seen + session.timeout then
      live[#live + 1] = session.name
    else
      dead[#dead + 1] = session.key
    end
  end
end
if live[1] or #open > MOST then
  table.sort(live)
  fail('INUSE', #live .. ' workers still use ' .. PREFIX .. '* (' .. table.concat(live, ', ', 1, math.min(#live, 3))
    .. (#live > 3 and ', ...' or '') .. '). Stop them, and migrate then.')
end
call('HSET', META, 'format', MIGRATING, 'migration', ARGV[2] .. ' ')
for _, key in ipairs(dead) do
  call('HSET', key, 'closed', string.format('%.0f', now), 'closing', 'all')
end
return ARGV[2]
