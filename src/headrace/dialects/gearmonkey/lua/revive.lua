-- revive: put failed or cancelled jobs back in line, with their counters at zero.
--
-- ARGV[2...]  ids
-- Answers     1 per job that was failed or cancelled, else 0
--@include prelude record

local answers = {}
for i = 2, #ARGV do
  local fn, number = locate(ARGV[i])
  answers[i - 1] = 0
  if fn and call('HGET', job_key(fn, number), 'status') == 'error' then
    check_function(fn)
    local job = job_key(fn, number)
    local record = read_record(fn, number)
    for _, field in ipairs({ 'error', 'group', 'deferred', 'state' }) do
      record[field] = nil
    end
    record.due, record.attempts, record.crashes, record.finished, record.result = now, 0, 0, 0, 0
    call('HSET', job, 'status', 'idle')
    call('HDEL', job, 'output', 'status:dividend', 'status:divisor')
    call('PERSIST', job)
    if record.id then
      call('PERSIST', id_key(record.id))
    end
    call('DEL', 'lock:' .. fn .. ':' .. number)
    forget_record(fn, number)
    write_record(fn, number, record)
    remove_from_line(fn, number) -- a peer may have finished it while it waited
    call('LPUSH', queue_key(fn, level_of(record, nil)), number)
    call('PUBLISH', SIDE .. fn .. ':wake', number)
    answers[i - 1] = 1
  end
end
return answers
