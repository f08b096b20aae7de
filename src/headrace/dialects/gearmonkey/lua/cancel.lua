-- cancel: what waits ends at once ("a job is also considered 'finished' if execution is cancelled"), what runs is told.
--
-- ARGV[2...]  ids
-- Answers     1 per job that is cancelled or will be told, 0 if it is done, unknown, or in the hands of a peer's worker
--@include prelude record session

local function cancel(id)
  local fn, number = locate(id)
  local status = fn and call('HGET', job_key(fn, number), 'status')
  if not status or status == 'success' then
    return 0
  end
  local record = read_record(fn, number)
  local key = record_key(fn, number)
  if status == 'error' then
    if record.state ~= 'cancelled' then
      call('HSET', key, 'state', 'cancelled')
      call('EXPIRE', key, math.max(call('TTL', job_key(fn, number)), 1))
    end
    return 1
  end
  if record.session and call('HEXISTS', held_key(record.session), record.ref) == 1 then
    call('HSET', key, 'cancelling', '1')
    call('PUBLISH', SIDE .. record.session .. ':told', number)
    return 1
  end
  if status == 'busy' then
    return 0
  end
  check_function(fn)
  call('HSET', key, 'state', 'cancelled', 'finished', digits(now))
  remove_from_line(fn, number)
  finish(fn, number, 'error', 'cancelled', record.id)
  return 1
end

local answers = {}
for i = 2, #ARGV do
  answers[i - 1] = cancel(ARGV[i])
end
return answers
