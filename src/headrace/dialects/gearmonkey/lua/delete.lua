-- delete: remove all trace of jobs; whoever runs one loses its lease.
--
-- ARGV[2...]  ids
-- Answers     1 per job that was there, else 0
--@include prelude record session

local answers = {}
for i = 2, #ARGV do
  local fn, number = locate(ARGV[i])
  answers[i - 1] = 0
  if fn and call('EXISTS', job_key(fn, number)) == 1 then
    check_function(fn)
    local record = read_record(fn, number)
    if record.session then
      call('HDEL', held_key(record.session), record.ref)
      call('ZREM', leases_key(fn), record.level .. ':' .. number)
    end
    remove_from_line(fn, number)
    call('DEL', job_key(fn, number), record_key(fn, number), 'lock:' .. fn .. ':' .. number)
    if record.id then
      call('DEL', id_key(record.id))
    end
    answers[i - 1] = 1
  end
end
return answers
