-- schedule_delete: remove a schedule. Jobs that it has put stay.
--
-- ARGV[2]  its name
-- Answers  1 if it was there, else 0
--@include current commit

if call('HEXISTS', schedules.key, ARGV[2]) == 0 then
  return 0
end
plan.schedules[ARGV[2]] = false
commit(even_when_full)
return 1
