-- A job that comes after more others than one step can see to. The part of a batch that brings it in names some of them, and says
-- `joining` in `more`; further parts bring the rest, and until the last has come in the job waits. Such a part is 'p', H id of the
-- job, B 1 if it is the last, and H id of each job that it comes after; a part with jobs is 'j' and these.
local joining = {}

function joining.read(part)
  local id, last, at = unpack_from('>Hc0B', part, 2)
  return id, last == 1, part:sub(at)
end

function joining.check(part)
  local good, id, _, packed = pcall(joining.read, part)
  local readable, parents = pcall(relations.names_in, good and packed or '')
  if not good or not readable then
    checks.refuse('The part of a batch that says what a job comes after cannot be read.')
  end
  checks.list_of_texts(parents, 'what comes before job ', id)
  checks.number(#parents, 1, 1000, 'How many jobs one part says to come before job ', id)
end

-- The job may have been there before its batch, or have gone since.
function joining.join(part, batch)
  local id, is_last, packed = joining.read(part)
  local job = find_job(id)
  local more = job and more_of(job)
  if not job or more.joining ~= batch then
    return
  end
  local parents = relations.names_in(packed)
  relations.write_parents(id, (call('HGET', AFTER, id) or '') .. packed)
  more.after, more.joining = (more.after or 0) + #parents, not is_last and batch or nil
  keep_more(job, more)
  local reason = relations.begin(job, parents, more.if_failed or 'fail')
  if job.state == BLOCKED and (reason or not relations.waits(job)) then
    count(job.queue, BLOCKED, -1)
    if reason then
      relations.fail(job, reason)
    else
      more.delay = nil -- none of those has been waited for
      keep_more(job, more)
      wait_in_line(job)
    end
  else
    change(job)
  end
end
