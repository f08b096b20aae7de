-- migrate_end: the namespace is in the new format.
--
-- ARGV[2]  ''
-- Answers  '', or the step to call if this one's turn has not come
--@include prelude format migrating

if at_step ~= 'migrate_end' then
  return at_step or ''
end
return go_on(nil)
