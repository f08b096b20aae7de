-- depend: change what a waiting job comes after. It is linked with many in steps, by this call and those that follow, and waits
-- until it is with all of them; should it have come to wait for itself by then, it fails.
--
-- ARGV[2]     job id
-- ARGV[3]     what it comes after, as `parents` answers
-- ARGV[4]     what it is to come after: H id each
-- ARGV[5]     the change in words, for the history
-- ARGV[6...]  'r' and the ids to remove, then 'm' and the ids to add, 80 at most in each argument: H each
-- Answers     1; 0 if there is no such job, or it does not wait; 2 if it comes after others by now than ARGV[3] says
-- Fails       CYCLE if it would wait for itself, REFUSED in a sequence. (If they come in several arguments ids to add are not looked
--             at here: `parents` looks at each)
--@include current commit

-- The answer is the error with which the job has to fail, or nil.
local function change_parents(job, number, changes)
  relations.keep_parents(job, more_of(job), ARGV[4], number)
  local reason
  for _, change in ipairs(changes) do
    local letter, packed = change:sub(1, 1), change:sub(2)
    if changes[3] or more_of(job).linking then
      links.later(job, letter, packed)
    else
      reason = links.look_at(job, letter, relations.names_in(packed))
    end
  end
  return reason
end

local changes, added = arguments(6), {}
checks.names(ARGV[4], 'what a job is to come after')
local _, number = checks.places(ARGV[4])
for _, change in ipairs(changes) do
  local good, _, n = pcall(checks.places, change:sub(2))
  if not good or n > PARENTS_AT_ONCE or not change:find('^[mr]') then
    checks.refuse('What changes of what a job comes after cannot be read.')
  end
  added[#added + 1] = change:sub(1, 1) == 'm' and change:sub(2) or nil
end
local job = find_job(ARGV[2])
if not job or job.state == RUNNING or job.state >= DONE then
  if work_off() then
    commit(even_when_full)
  end
  return 0
elseif relations.packed_parents(job) ~= ARGV[3] then
  return 2
end
links.check_added(job, added[1] and not added[2] and relations.names_in(added[1]) or {})
local waited = relations.waits(job)
local reason = change_parents(job, number, changes)
local waits = relations.waits(job)
remember(job, now, 'edited', ARGV[5], '')
happened(job, 'edited', ARGV[5])
if reason then
  leave_state(job)
  relations.fail(job, reason)
elseif waited and not waits then
  relations.release(job, more_of(job))
elseif waits and not waited then
  local due, was_due = lanes.own_due(job), not lanes.is_later(job)
  leave_state(job)
  job.due = due
  wait_in_line(job, was_due)
  lanes.look_again(job)
else
  change(job)
end
work_off()
commit(unless_full)
return 1
