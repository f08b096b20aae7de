-- What has been set in {ns}:settings, or the default. (The definitions are in headrace/settings.py.)
--@include prelude

local SETTINGS = PREFIX .. 'settings'
local DEFAULTS = {
  ['jobs-history'] = 604800000, ['jobs-history-count'] = 50000,
  ['failed-history'] = 2592000000,
  ['max-job-history'] = 100, ['max-worker-age'] = 86400000,
  ['stats-history'] = 2592000000, ['histogram-history'] = 604800000,
}

local SETTING_NAMES = {
  'jobs-history', 'jobs-history-count', 'failed-history', 'max-job-history', 'max-worker-age', 'stats-history',
  'histogram-history', 'results-history', 'history-memory',
}

-- Read once, all of them: who needs one mostly needs another.
local settings_read

local function setting(name)
  if not settings_read then
    settings_read = {}
    local values = not absent[SETTINGS] and call('HMGET', SETTINGS, unpack(SETTING_NAMES)) or {}
    for i, known in ipairs(SETTING_NAMES) do
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
