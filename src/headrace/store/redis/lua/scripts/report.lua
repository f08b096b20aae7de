-- report: progress, data and log lines of running jobs. Marks the session as seen.
--
-- ARGV[2]  session id
-- ARGV[3]  number of the request
-- ARGV[4]  for each report H id, d arrival, d token, B given (1 progress, 2 data, 4 base, 8 account), d progress, d of total,
--          I data, H number of log lines, I the data that it is a change of if given, I what is told of the data before if
--          given, and for each line d how long ago, I line
-- Answers  a byte per report: 1 recorded, 0 the lease is gone, 2 recorded but for the data, which has changed since
-- Fails    GONE, STALE, REFUSED
--@include commit sessions

local session = live_session(ARGV[2])
local request = tonumber(ARGV[3])
local seen_now = { 'seen', string.format('%.0f', steady), 'seen_at', string.format('%.0f', now) }
if is_repeat(session, request) then
  even_when_full()
  call('HSET', session.key, unpack(seen_now))
  return session.answer
end

local answer = {}
local sent, at = ARGV[4], 1
while at <= #sent do
  local id, arrival, token, given, progress, total, data, lines, base, account
  id, arrival, token, given, progress, total, data, lines, at = unpack_from('>Hc0ddBddIc0H', sent, at)
  if band(given, 4) ~= 0 then
    base, at = unpack_from('>Ic0', sent, at)
  end
  if band(given, 8) ~= 0 then
    account, at = unpack_from('>Ic0', sent, at)
  end
  local job = find_job(id)
  local held = holds(session, job, arrival, token)
  answer[#answer + 1] = held and '\1' or '\0'
  if held and given > 0 then
    local story = story_of(job)
    if band(given, 1) ~= 0 then
      checks.number(progress, -1e300, 1e300, 'The progress of job ', id)
      checks.number(total, -1e300, 1e300, 'The total of job ', id)
      story.progress, story.total = progress, total
      job.flags = with(job.flags, HAS_PROGRESS)
      happened(job, 'progress', string.format('%.14g/%.14g', progress, total), session.name)
    end
    if base and value_of(job, story, 'data') ~= base then
      answer[#answer] = '\2'
    elseif band(given, 2) ~= 0 then
      keep_value(job, story, 'data', data)
      story.large = base and without(story.large, UPDATED) or story.large
      if account then
        remember(job, now, 'updated', '', session.name, account)
      end
    end
    tell(job, story)
    change(job)
  end
  for _ = 1, lines do
    local ago, line
    ago, line, at = unpack_from('>dIc0', sent, at)
    checks.duration(ago, 'The age of a line of job ', id)
    if held then
      remember(job, now - ago, 'log', line, session.name)
      happened(job, 'log', line, session.name)
      change(job)
    end
  end
end

local bytes = table.concat(answer)
commit(function()
  even_when_full() -- what a run says comes before its outcome, and that makes room
  call('HSET', session.key, 'request', string.format('%.0f', request), 'answer', bytes, 'handed', '', unpack(seen_now))
end)
return bytes
