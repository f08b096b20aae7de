-- Jobs that fail unless they have started in time: `expires` in what is kept about them, and {ns}:expiring, which has those that wait.
--@include admission

makers[expiring] = function()
  expiring.key = PREFIX .. 'expiring'

  -- When it fails if it still waits then, or false: it does not wait.
  function expiring.note(job, at)
    plan.index.expiring = plan.index.expiring or {}
    plan.index.expiring[job.id] = at
  end

  -- A job that expires waits, and is due then, unless it waits for other jobs.
  function expiring.begin(job, due)
    local expires = more_of(job).expires
    expiring.note(job, expires.at or not relations.waits(job) and due + expires.after)
  end

  -- It waits no more.
  function expiring.stop(job)
    expiring.note(job, false)
  end

  -- It has started, or was revived.
  function expiring.drop(job)
    local more = more_of(job)
    if more.expires then
      expiring.note(job, false)
      more.expires = nil
      keep_more(job, more)
    end
  end

  -- When a job that waits fails; nil: never.
  function expiring.at(job)
    local at = plan.index.expiring and plan.index.expiring[job.id]
    if at == nil then
      at = more_of(job).expires and call('ZSCORE', expiring.key, job.id)
    end
    return at and tonumber(at) or nil
  end

  -- It is out of its line.
  function expiring.fail(job)
    relations.fail(job, culprits.error(NOT_STARTED), EXPIRED)
  end
end
