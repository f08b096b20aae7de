-- settings_get: what has been set.
--
-- Answers  {name, value, ...}
--@include current settings

return numbers_in(SETTINGS)
