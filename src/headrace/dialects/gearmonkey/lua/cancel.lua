-- cancel: what waits ends at once ("a job is also considered 'finished' if execution is cancelled"), what runs is told.
--
-- ARGV[2...]  ids
-- Answers     1 per job that is cancelled or will be told, 0 if it is done, unknown, or in the hands of a peer's worker
--@include prelude record held session

local function cancel(id)
  local fn, number = locate(id)
  local status = fn and call('HGET', job_key(fn, number), 'status')
  if not status or status == 'success' then
    return 0
  end
  local session_id, held
  if status == 'busy' then
    session_id, held = holder_of(fn, number)
  end
  if held then
    local record = parse(held.blob)
    record.cancelling = true
    held.blob = build(record)
    write_held(session_id, held)
    call('PUBLISH', SIDE .. session_id .. ':told', number)
    return 1
  end
  if status == 'busy' then
    return 0
  end
  local record = read_record(fn, number)
  record.state = 'cancelled'
  if status == 'error' then
    write_ended(fn, number, build(record))
    return 1
  end
  check_function(fn)
  record.finished = now
  finish(fn, number, 'error', 'cancelled', build(record))
  remove_from_line(fn, number)
  return 1
end

local answers = {}
for i = 2, #ARGV do
  answers[i - 1] = cancel(ARGV[i])
end
return answers
