-- scan: what is due and can be run here, earliest first. Needs prelude.

local PAGE, MOST, MOST_BYTES = 100, 1000, 4000000

-- The id in a member, whatever its spelling; nil if there is none that could be a name.
local function id_of(member)
  local id = string.match(member, '^{"id":"([^"\\%c]+)"}$')
  if id then
    return id
  end
  local readable, value = pcall(cjson.decode, member)
  if readable and type(value) == 'table' and type(value.id) == 'string' and not string.find(value.id, '["\\%c]') then
    return value.id
  end
end

-- The job that a payload names; nil if it names none. (It is decoded for that only, and never written back.)
local function job_of(payload)
  local readable, value = pcall(cjson.decode, payload)
  if readable and type(value) == 'table' and type(value.job) == 'string' then
    return value.job
  end
end

local function set_of(lines)
  local set = {}
  for line in string.gmatch(lines, '[^\n]+') do
    set[line] = true
  end
  return set
end

-- The function that a literal calls, as far as a glance can tell: literals.py reads it whole.
local function called(job)
  return string.match(job, '^%s*%(%s*fn%*?[%s,]*%[[^%]]*%][%s,]*%([%s,]*([^%s,()]+)')
    or string.match(job, '^%s*#%([%s,]*([^%s,()]+)')
end

-- The same for all spellings of a name, as `likeness` in handlers.py.
local function is_known(job, known)
  local name = string.gsub(called(job) or job, "^#'", '')
  name = string.gsub(string.gsub(name, '%-', '_'), '/', ':')
  return known[name] or known[string.match(name, '^[^:]*:') or '']
end

-- Answers {found: {member, id, score, payload} each; strays: members without payload; passed: {id, job or ''} each of the
-- first few that can't be run here; resume: where to go on, or nil if all that is due was seen}.
-- `known`: likenesses of what can be run. `skip`: ids that are known not to be readable. Looks at most at MOST entries, or at
-- MOST_BYTES of payloads, and a bit: the server has others to serve.
local function scan(known, skip, wanted, offset)
  local found, strays, passed, bytes = {}, {}, {}, 0
  local size = math.min(PAGE, math.max(wanted, 10))
  local last = offset + MOST
  while #found < wanted do
    if offset >= last then
      return found, strays, passed, offset
    end
    local page = call('ZRANGEBYSCORE', NEXT, '-inf', digits(now), 'WITHSCORES', 'LIMIT', offset, size)
    for i = 1, #page, 2 do
      if #found == wanted then
        break
      end
      local member, id = page[i], id_of(page[i])
      if bytes > MOST_BYTES then
        return found, strays, passed, offset + (i - 1) / 2
      end
      local payload = id and call('HGET', JOBS, id)
      bytes = bytes + #(payload or '')
      local job = payload and job_of(payload)
      if id and not payload then
        strays[#strays + 1] = member
      elseif job and is_known(job, known) and not skip[id] then
        found[#found + 1] = { member, id, page[i + 1], payload }
      elseif #passed < 5 then
        passed[#passed + 1] = { id or member, job or '' }
      end
    end
    if #page < 2 * size then
      break
    end
    offset = offset + size
    size = PAGE
  end
  return found, strays, passed, nil
end

-- When the next entry that is not due yet will be; nil if there is none.
local function next_due()
  return call('ZRANGEBYSCORE', NEXT, '(' .. digits(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
end
