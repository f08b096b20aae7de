-- settings_get: what has been set.
--
-- Answers  {name, value, ...}
--@include prelude format same_format settings

return numbers_in(SETTINGS)
