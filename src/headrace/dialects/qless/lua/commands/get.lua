-- get jid
-- Reply: JSON job object, or nil.
Qless.get = function(_, arguments)
  local job = Qless.Job.get(required('Get', 'jid', arguments[1]))
  return job and encode(job)
end
return Qless.get
