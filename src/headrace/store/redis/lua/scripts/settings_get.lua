-- settings_get: what has been set.
--
-- Answers  {name, value, ...}
--@include settings

check_format(call('HGET', META, 'format'))
return numbers_in(SETTINGS)
