-- What has been set in {ns}:settings, or the default. (The definitions are in store/settings.py.)
--@include prelude

local SETTINGS = PREFIX .. 'settings'
local DEFAULTS = SETTING_DEFAULTS

-- Read once, all of them: a script that needs one mostly needs another.
local settings_read

local function setting(name)
  if not settings_read then
    settings_read = {}
    local names = SETTING_NAMES
    local values = not absent[SETTINGS] and call('HMGET', SETTINGS, unpack(names)) or {}
    for i, known in ipairs(names) do
      settings_read[known] = values[i] and tonumber(values[i]) or DEFAULTS[known]
    end
  end
  return settings_read[name]
end

-- The fields of a hash that are numbers: {name, value, ...}.
local function numbers_in(key)
  local found, numbers = call('HGETALL', key), {}
  for i = 1, #found, 2 do
    if tonumber(found[i + 1]) then
      numbers[#numbers + 1] = found[i]
      numbers[#numbers + 1] = found[i + 1]
    end
  end
  return numbers
end
