-- Whether a job is one that is looked for. ARGV[4] states, as digits ('': any); ARGV[5..7] queue, task, group: '' or '=' and
-- the name. Its task, if it is.
local function fits(job)
  if not (ARGV[4] == '' or ARGV[4]:find(job.state, 1, true)) or not (ARGV[5] == '' or ARGV[5] == '=' .. job.queue) then
    return nil
  end
  local good, _, task = pcall(unpack_from, '>Hc0Hc0', job.put)
  if not good then
    fail_damaged(job.id, job.queue, job.arrival)
  end
  if ARGV[6] ~= '' and ARGV[6] ~= '=' .. task then
    return nil
  end
  if ARGV[7] ~= '' and not (band(job.flags, HAS_GROUP) ~= 0 and ARGV[7] == '=' .. story_of(job).group) then
    return nil
  end
  return task
end
