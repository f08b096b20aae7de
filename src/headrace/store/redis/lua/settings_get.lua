-- settings_get: what has been set.
--
-- Answers  {name, value, ...}
--@include prelude settings

return numbers_in(SETTINGS)
