-- depend: change what a waiting job comes after. Of many it is linked with some in each step, here and in the calls that follow, and
-- waits until it is with all of them; should it wait for itself then, it fails.
--
-- ARGV[2]  job id
-- ARGV[3]  ids to add, ARGV[4] ids to remove: H each
-- ARGV[5]  the same in words, for the history
-- ARGV[6]  'check': change nothing, but say what would be wrong with these ids to add; may be left out. For the parts of a long list,
--          which would take too long to check at once: it is not checked, else
-- Answers  1, or 0 if there is no such job, or it does not wait
-- Fails    CYCLE if it would wait for itself, REFUSED in a sequence
--@include commit checks

check_format(call('HGET', META, 'format'))
-- What a waiting job comes after is changed: H id each, to add and to remove. The answer is the error with which it has to fail, or nil.
local function change_parents(job, add, gone)
  local after, left_out, listed, removed = {}, {}, {}, {}
  for _, piece in ipairs(links.pieces(gone)) do
    left_out[piece] = true
  end
  local added = links.pieces(add)
  for _, piece in ipairs(added) do
    left_out[piece] = nil
  end
  for _, pieces in ipairs({ links.pieces(relations.packed_parents(job)), added }) do
    for _, piece in ipairs(pieces) do
      if not left_out[piece] and not listed[piece] then
        listed[piece] = true
        after[#after + 1] = piece
      end
    end
  end
  for piece in pairs(left_out) do
    removed[#removed + 1] = piece
  end
  relations.keep_parents(job, more_of(job), table.concat(after), #after)
  links.look_at_all(job, 'r', table.concat(removed))
  return links.look_at_all(job, 'm', add)
end

checks.names(ARGV[3], 'the ids to add')
checks.names(ARGV[4], 'the ids to remove')
local job = find_job(ARGV[2])
if not job or job.state == RUNNING or job.state >= DONE then
  if work_off() then
    commit(even_when_full)
  end
  return 0
end
local lane, _, number = lanes.of(job), checks.places(ARGV[3])
if number > 0 and lane and lane.kept.sequence then
  fail('REFUSED', relations.no_dependencies(job, lane))
end
local add = number <= PARENTS_AT_ONCE and relations.names_in(ARGV[3]) or {}
load_many(add)
local found = links.find_cycle(add, job)
if found == 'deep' then
  fail('CYCLE', TOO_DEEP_TO_DEPEND:format(job.id))
end
for _, id in ipairs(found and add or {}) do
  if links.find_cycle({ id }, job) == 'cycle' then
    fail('CYCLE', WOULD_BE_A_CYCLE:format(job.id, id))
  end
end
if ARGV[6] == 'check' then
  return 1
end
local waited = relations.waits(job)
local reason = change_parents(job, ARGV[3], ARGV[4])
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
