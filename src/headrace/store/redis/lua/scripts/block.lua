-- block: hand out no more jobs of a task, or let them run again. Those that were kept back come back in steps, by the calls that follow
-- and by sweeps.
--
-- ARGV[2]  block; unblock; or next, for the next step
-- ARGV[3]  task
-- ARGV[4]  why it is blocked, ARGV[5] by whom
-- Answers  {1, or 0 if it was blocked already or was not blocked; 1 if there may be more to bring back}
-- Fails    REFUSED if too many tasks are blocked
--@include current commit

local act, task = ARGV[2], ARGV[3]
local packed, found = barring.about(task)
local is_blocked = packed ~= ''
check_type(barring.lifting, 'set')
if act == 'block' then
  for i = 3, 5 do
    checks.text(ARGV[i], 'What is said about a task that is blocked')
  end
  if not is_blocked and call('HLEN', barring.key) >= MOST_BLOCKS then
    checks.refuse(TOO_MANY_BLOCKS)
  end
  call('HSET', barring.key, task, cmsgpack.pack({ is_blocked and found[1] or now, ARGV[5], ARGV[4] }))
  call('SREM', barring.lifting, task)
  return { is_blocked and 0 or 1, 0 }
elseif act == 'unblock' and is_blocked then
  set_field(barring.key, task, false)
  append(plan.held_in, barring.lifting, task)
  commit(even_when_full)
  return { 1, 1 }
end
local more = barring.bring_back()
if more then
  commit(even_when_full)
end
return { 0, more and 1 or 0 }
