-- What has been set in {ns}:settings, or the default. (The definitions are in headrace/settings.py.)
local SETTINGS = PREFIX .. 'settings'
local DEFAULTS = {
  ['jobs-history'] = 604800000, ['jobs-history-count'] = 50000,
  ['failed-history'] = 2592000000,
  ['max-job-history'] = 100, ['max-worker-age'] = 86400000,
  ['stats-history'] = 2592000000, ['histogram-history'] = 604800000,
}

local function setting(name)
  local found = not absent[SETTINGS] and call('HGET', SETTINGS, name)
  return found and tonumber(found) or DEFAULTS[name]
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
