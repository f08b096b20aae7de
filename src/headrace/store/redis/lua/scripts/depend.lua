-- depend: change what a waiting job comes after.
--
-- ARGV[2]  job id
-- ARGV[3]  ids to add, ARGV[4] ids to remove: H each
-- ARGV[5]  the same in words, for the history
-- Answers  1, or 0 if there is no such job, or it does not wait
-- Fails    CYCLE if it would wait for itself, REFUSED in a sequence
--@include commit

check_format(call('HGET', META, 'format'))
-- What a waiting job comes after is changed: ids to add and to remove. The answer is the error with which it has to fail, or nil.
local function change_parents(job, add, gone)
  local more, listed, left_out, after = more_of(job), {}, {}, {}
  for _, id in ipairs(gone) do
    left_out[id] = true
  end
  for _, id in ipairs(add) do
    left_out[id] = nil
  end
  for _, id in ipairs(relations.parents_of(job)) do
    if not left_out[id] then
      listed[id] = true
      after[#after + 1] = id
    end
  end
  for _, id in ipairs(add) do
    if not listed[id] then
      listed[id] = true
      after[#after + 1] = id
    end
  end
  for id in pairs(left_out) do
    relations.part(job, id)
    relations.unfollow(job, id)
  end
  relations.keep_parents(job, more, after)
  return relations.begin(job, add, more.if_failed or 'fail')
end

local job = find_job(ARGV[2])
if not job or job.state == RUNNING or job.state >= DONE then
  if work_off() then
    commit(even_when_full)
  end
  return 0
end
local add, gone = relations.names_in(ARGV[3]), relations.names_in(ARGV[4])
local lane = lanes.of(job)
if add[1] and lane and lane.kept.sequence then
  fail('REFUSED', relations.no_dependencies(job, lane))
end
load_many(add)
local found = relations.walk(add, job.id)
if found == 'deep' then
  fail('CYCLE', TOO_DEEP_TO_DEPEND:format(job.id))
end
for _, id in ipairs(found and add or {}) do
  if relations.walk({ id }, job.id) == 'cycle' then
    fail('CYCLE', WOULD_BE_A_CYCLE:format(job.id, id))
  end
end
local waited = relations.waits(job)
local reason = change_parents(job, add, gone)
local waits = relations.waits(job)
remember(job, now, 'edited', ARGV[5], '')
happened(job, 'edited', ARGV[5])
if reason then
  leave_state(job)
  relations.fail(job, reason)
elseif waited and not waits then
  relations.release(job, more_of(job))
elseif waits and not waited then
  local due = lanes.own_due(job)
  leave_state(job)
  job.due = due
  wait_in_line(job)
  lanes.look_again(job)
else
  change(job)
end
work_off()
-- This takes memory: a full server refuses it, and with it all the rest.
commit(function()
  call('HSET', META, 'format', '2')
end)
return 1
