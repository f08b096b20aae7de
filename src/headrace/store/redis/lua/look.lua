-- What there is to say about a job: {record, 1 if it has its unique key, name of the session that runs it, kind, value, ...} with
-- the values kept in large (kinds b body, d data, r result, e error) in more (m) and in after (a).
local runners = {}

local function runner(number)
  if runners[number] == nil then
    local id = session_of(number)
    runners[number] = id and call('HGET', PREFIX .. 'session:' .. id, 'name') or ''
  end
  return runners[number]
end

local function describe(job)
  local id, key = job.id, key_of(job)
  local holder = key and holder_of(key)
  story_of(job) -- or it is damaged
  local entry = { serialize(job), holder and holder.id == id and 1 or 0, job.state == RUNNING and runner(job.session) or '' }
  local kinds = {}
  if band(job.flags, LARGE_BODY) ~= 0 then
    kinds[1] = 'b'
  end
  local large = band(job.flags, STORY) ~= 0 and job.told:byte(1) or 0
  for bit_, kind in pairs({ [1] = 'd', [2] = 'r', [4] = 'e' }) do
    if band(large, bit_) ~= 0 then
      kinds[#kinds + 1] = kind
    end
  end
  for _, kind in ipairs(kinds) do
    entry[#entry + 1] = kind
    entry[#entry + 1] = call('HGET', LARGE, kind .. ':' .. id)
  end
  if band(job.flags, MORE) ~= 0 then
    entry[#entry + 1] = 'm'
    entry[#entry + 1] = packed_more(id)
    local after = call('HGET', AFTER, id)
    if after then
      entry[#entry + 1] = 'a'
      entry[#entry + 1] = after
    end
  end
  return entry
end
