-- get jid
-- Reply: JSON job object, or nil.
function Qless.get(_, jid)
  local job = Qless.Job.get(required('Get', 'jid', jid))
  return job and cjson.encode(job)
end
