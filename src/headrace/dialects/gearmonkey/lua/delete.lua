-- delete: remove all trace of jobs; whoever runs one loses its lease.
--
-- ARGV[2...]  ids
-- Answers     1 per job that was there, else 0
--@include prelude record held session

local answers = {}
for i = 2, #ARGV do
  local fn, number = locate(ARGV[i])
  answers[i - 1] = 0
  if fn and call('EXISTS', job_key(fn, number)) == 1 then
    check_function(fn)
    local session_id, held = holder_of(fn, number)
    local record = parse(held and held.blob or read_blob(fn, number))
    if held then
      let_go(session_id, { { place_of(fn, number), held } })
    end
    remove_from_line(fn, number)
    call('DEL', job_key(fn, number), 'lock:' .. fn .. ':' .. number)
    forget_record(fn, number)
    if record.id then
      call('DEL', id_key(record.id))
    end
    answers[i - 1] = 1
  end
end
return answers
