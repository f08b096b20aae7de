-- Finding jobs, and what there is to say about one.
--@include plan

-- The name of the session with a number; '' if it is gone.
local runners = {}

local function runner(number)
  if runners[number] == nil then
    local id = session_of(number)
    runners[number] = id and call('HGET', PREFIX .. 'session:' .. id, 'name') or ''
  end
  return runners[number]
end

-- What there is to say about a job: {record, 1 if it has its unique key, name of the session that runs it, kind, value, ...} with
-- the values kept in large (kinds b body, d data, r result, e error) in more (m) and in after (a).
local function describe(job)
  local id, key = job.id, key_of(job)
  local holder = key and holder_of(key)
  story_of(job) -- or it is damaged
  local entry = { serialize(job), holder and holder.id == id and 1 or 0, job.state == RUNNING and runner(job.session) or '' }
  local function add(kind, value)
    entry[#entry + 1] = kind
    entry[#entry + 1] = value
  end
  local large = band(job.flags, STORY) ~= 0 and job.story:byte(1) or 0
  local is_large = { b = band(job.flags, LARGE_BODY), d = band(large, 1), r = band(large, 2), e = band(large, 4) }
  for _, kind in ipairs({ 'b', 'd', 'r', 'e' }) do
    if is_large[kind] ~= 0 then
      add(kind, call('HGET', LARGE, kind .. ':' .. id))
    end
  end
  if band(job.flags, MORE) ~= 0 then
    add('m', packed_more(id))
    local after = call('HGET', AFTER, id)
    if after then
      add('a', after)
    end
  end
  return entry
end

-- Adds arrival, id and task of a job to an answer, if it is one that is looked for. ARGV[3] is the number before which it arrived;
-- ARGV[4] states, as digits ('': any); ARGV[5..7] queue, task, group: '' or '=' and the name.
local function add_if_it_fits(answer, job, arrival)
  if arrival >= tonumber(ARGV[3]) or not (ARGV[4] == '' or ARGV[4]:find(job.state, 1, true))
    or not (ARGV[5] == '' or ARGV[5] == '=' .. job.queue) then
    return
  end
  local task = task_of(job)
  if ARGV[6] ~= '' and ARGV[6] ~= '=' .. task then
    return
  end
  if ARGV[7] == '' or band(job.flags, HAS_GROUP) ~= 0 and ARGV[7] == '=' .. story_of(job).group then
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3] = string.format('%.0f', arrival), job.id, task
  end
end
