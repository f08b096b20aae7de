-- restore: give jobs that were put to wait for it (due at the last moment of all) the past that they had in another store.
--
-- ARGV[2]  for each job H id, d created, d due, I attempts, H crashes, d started, d finished (0: not), B state (0: it waits),
--          B given (1 progress, 2 result, 4 error, 8 group; 16: it had a result), d progress, d of total, I result, I error, H group
-- Answers  for each 1, or 0 if there is no such job, or it does not wait for its past
--@include current acts

local function next_past(sent, at)
  local past, given = {}, nil
  past.id, past.created, past.due, past.attempts, past.crashes, past.started, past.finished, past.state, given, past.done,
    past.total, past.result, past.error, past.group, at = unpack_from('>Hc0ddIHddBBddIc0Ic0Hc0', sent, at)
  past.done = band(given, 1) ~= 0 and past.done or nil
  past.result = band(given, 2) ~= 0 and past.result or nil
  past.error = band(given, 4) ~= 0 and past.error or nil
  past.group = band(given, 8) ~= 0 and past.group or nil
  past.dropped = band(given, 16) ~= 0
  for _, name in ipairs({ 'created', 'due', 'started', 'finished' }) do
    checks.integer(past[name], 0, LATEST, 'In the past of job ' .. past.id .. ' the moment `' .. name .. '`')
  end
  checks.number(past.done or 0, -1e300, 1e300, 'The progress of job ', past.id)
  checks.number(past.total, -1e300, 1e300, 'The total of job ', past.id)
  if past.state ~= 0 then
    checks.number(past.state, DONE, CANCELLED, 'The state of job ', past.id)
  end
  checks.text(past.group or '', 'The group of job ', past.id)
  return past, at
end

local ids, pasts = {}, {}
local good, problem = pcall(function()
  local at, past = 1, nil
  while at <= #ARGV[2] do
    past, at = next_past(ARGV[2], at)
    ids[#ids + 1], pasts[past.id] = past.id, past
  end
end)
if not good then
  checks.unreadable('What jobs went through', problem)
end

local function tell_past(job, past)
  local story = story_of(job)
  job.created, job.attempts, job.crashes, job.started = past.created, past.attempts, past.crashes, past.started
  if past.started > 0 then
    job.flags = with(job.flags, RUN)
  end
  if past.done then
    story.progress, story.total = past.done, past.total
    job.flags = with(job.flags, HAS_PROGRESS)
  end
  keep_value(job, story, 'result', past.result)
  keep_value(job, story, 'error', past.error)
  keep_group(job, story, past.group)
  if past.dropped then
    story.large = with(story.large, RESULT_DROPPED)
  end
  tell(job, story)
end

return act_on(ids, unless_full, function(job)
  local past = pasts[job.id]
  if job.state == FAILED then -- with one that it comes after, since it was put
    if past.state ~= FAILED or job.due ~= PARKED then
      return false
    end
  elseif job.state > READY and job.state ~= BLOCKED or lanes.own_due(job) ~= PARKED then
    return false
  end
  leave_state(job)
  tell_past(job, past)
  change(job)
  remember(job, now, 'edited', 'restored', '')
  happened(job, 'edited', 'restored')
  job.due = past.due
  if past.state ~= 0 then
    job.state = job.state == FAILED and FAILED or RUNNING -- as the end of a run: no line in its history tells of another one
    finish(job, past.state, past.finished > 0 and past.finished or now)
  else
    wait_in_line(job)
    lanes.look_again(job)
  end
  return true
end)
