-- Jobs that failed because of others that they came after: what their errors say, and how they come back. Because of which a job
-- has failed is in {ns}:culprits:<id>; it comes back when the last of these is revived.
--@include admission

makers[culprits] = function()
  function culprits.of(id)
    return relations.set_of(PREFIX .. 'culprits:' .. id)
  end

  -- As workers write errors.
  function culprits.error(reason)
    local message = cjson.encode(reason):gsub('\\/', '/')
    return '{"type":"","message":' .. message .. ',"traceback":""}'
  end

  -- The error of a failed job, in one piece of text that is not too long.
  function culprits.cause(encoded)
    local good, error_ = pcall(cjson.decode, encoded)
    local cause = encoded
    if good and type(error_) == 'table' and type(error_.type) == 'string' and type(error_.message) == 'string' then
      cause = error_.type .. (error_.type ~= '' and error_.message ~= '' and ': ' or '') .. error_.message
    end
    local last = CAUSE_SIZE
    if #cause <= last then
      return cause
    end
    -- Not through the middle of a character: its bytes after the first are from 128 to 191.
    while cause:byte(last + 1) >= 128 and cause:byte(last + 1) < 192 do
      last = last - 1
    end
    return cause:sub(1, last) .. '…'
  end

  -- The error of a job whose parent failed: it tells of the culprit, which may be further up the line. (nil: the parent is gone, or
  -- has not failed any more.)
  function culprits.failed_with(id, parent)
    local cause = ''
    if parent and parent.state == FAILED and band(parent.flags, HAS_ERROR) ~= 0 then
      local encoded = value_of(parent, story_of(parent), 'error')
      if culprits.of(id).number > 0 then
        return encoded
      end
      cause = culprits.cause(encoded)
    end
    return culprits.error(FAILED_PARENT:format(id) .. (cause == '' and '.' or ': ' .. cause))
  end

  function culprits.because(id, parent, state)
    if state == FAILED then
      return culprits.failed_with(id, parent)
    end
    return culprits.error((state == CANCELLED and CANCELLED_PARENT or REMOVED_PARENT):format(id))
  end

  -- A culprit was revived. Without the last of them, the job that failed with them waits again. The answer is what that cost.
  function culprits.forgive(job, parent)
    local set = culprits.of(job.id)
    if not relations.drop(set, parent) or set.number > 0 or job.state ~= FAILED or is_set_aside(job)
      or culprits.key_is_taken(job) then
      return 0
    end
    culprits.bring_back(job, job.due)
    return more_of(job).after
  end

  -- Whether a job lost its unique key to a newer one that still holds it.
  function culprits.key_is_taken(job)
    local key = key_of(job)
    local holder = key and holder_of(key)
    local other = holder and holder.id ~= job.id and find_job(holder.id)
    return other and (other.state < DONE or holder.till > now)
  end

  -- A job that comes back has its key again, until its end, should another have taken it meanwhile.
  function culprits.take_key(job)
    local key = key_of(job)
    local holder = key and holder_of(key)
    if key and not (holder and holder.id == job.id) then
      unique_seen[key] = { id = job.id, till = 0 }
      plan.unique_in[#plan.unique_in + 1] = key
      plan.unique_in[#plan.unique_in + 1] = pack('>d', 0) .. job.id
    end
  end

  -- Into line again, as if it were new, with its culprit or `by_hand`, and then perhaps of another queue. What failed because of it
  -- follows.
  function culprits.bring_back(job, due, by_hand, to)
    remember_end(job)
    remember(job, now, 'revived', '', '')
    leave_state(job)
    if to then
      move(job, { queue = to })
    end
    job.attempts, job.crashes, job.finished, job.due = 0, 0, 0, due
    if band(job.flags, STORY) ~= 0 then
      local story = story_of(job)
      keep_value(job, story, 'error', nil)
      keep_group(job, story, nil)
      keep_value(job, story, 'result', nil)
      story.large = without(story.large, RESULT_DROPPED)
      story.deferred = 0
      job.flags = without(job.flags, HAS_DEFERRED)
      tell(job, story)
    end
    culprits.take_key(job)
    happened(job, 'revived')
    local more = more_of(job)
    if more.after and by_hand then
      relations.forget(PREFIX .. 'culprits:' .. job.id)
      more.delay = nil
      keep_more(job, more)
    end
    if more.after then
      links.look_at_all(job, by_hand and 'd' or 'f', relations.packed_parents(job))
    end
    relations.revived(job)
    lanes.join(job)
    wait_in_line(job)
  end
end
